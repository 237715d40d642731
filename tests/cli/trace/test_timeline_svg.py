"""Timelines of pods as SVG."""

import xml.etree.ElementTree as ET

from sampan.cli.trace.timeline_svg import timeline_svg
from sampan.diagnosis.pod_timeline import PodTimeline, timeline
from tests.diagnosis.recorded_pod import record


def test_svg_escapes_object_names_and_actors() -> None:
    records = [record("apiserver", "create", 0.0, 0.1, "201", actor="<script>&")]
    root = ET.fromstring(timeline_svg("pod <a>/&", timeline(records)))
    assert "script" not in {child.tag for child in root.iter()}
    assert timeline_svg("empty", PodTimeline(steps=[])).startswith("<svg")

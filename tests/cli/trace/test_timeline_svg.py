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


def test_title_and_times_of_a_pod_with_a_long_name_fit_into_the_picture() -> None:
    records = [record("apiserver", "create", 0.0, 0.1, "201", actor="admin")]
    title = f"pod {'n' * 63}/{'p' * 200} on node node-0"
    root = ET.fromstring(timeline_svg(title, timeline(records)))
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == [title, "not running yet"]
    assert float(root.attrib["viewBox"].split()[2]) > 8 * len(title)

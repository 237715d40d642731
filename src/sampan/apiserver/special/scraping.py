"""/metrics: the metrics of the process, for Prometheus."""

from sampan.apiserver.call import Call
from sampan.apiserver.results import BytesAnswer, no_such_path
from sampan.machinery.metrics import CONTENT_TYPE, Metrics


class Scraping:
    def __init__(self, *, metrics: Metrics) -> None:
        self._metrics = metrics

    async def handle(self, call: Call) -> BytesAnswer:
        if call.path != "/metrics":
            return no_such_path()
        return BytesAnswer(self._metrics.text().encode(), CONTENT_TYPE)

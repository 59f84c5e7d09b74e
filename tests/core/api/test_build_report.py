"""What a frontend recorded is in the report."""

from costcore import Report
from costcore.ir import Cost, Layer, Tensor
from tests.core.traces import Call, Recorder, report_of


def test_seconds_that_a_frontend_read_from_a_file_are_kept():
    recorder = Recorder()  # nobody asked for measured time
    layer = Layer("relu", {"x": Tensor((2,))}, [Tensor((2,))])
    recorder.record(Call(layer, "relu"), Cost(2, 8, 8, {}), seconds=0.25)
    recorder.record(Call(layer, "relu"), Cost(2, 8, 8, {}))
    report = report_of(recorder)
    assert [record.seconds for record in report.trace] == [0.25, None]
    assert [record.seconds for record in Report.from_json(report.to_json()).trace] == [0.25, None]

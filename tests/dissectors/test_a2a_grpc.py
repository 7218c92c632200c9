"""A2A over gRPC: what the SDK's own protocol buffers encode is read back."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors import a2a_grpc


def both() -> list[tuple[str, Any]]:
    pytest.importorskip("a2a")
    from a2a.compat.v0_3 import a2a_v0_3_pb2
    from a2a.types import a2a_pb2

    return [("1.0", a2a_pb2), ("0.3", a2a_v0_3_pb2)]


@pytest.mark.sdk
def test_what_the_sdk_encodes() -> None:
    for version, pb in both():
        message = pb.Message(message_id="m1", context_id="c1", task_id="t1")
        sent = pb.SendMessageRequest(message=message) if version == "1.0" else pb.SendMessageRequest(request=message)
        assert a2a_grpc.read(version, "Send", sent.SerializeToString()) == {
            "message": {"messageId": "m1", "contextId": "c1", "taskId": "t1"}
        }
        task = pb.Task(id="t1", context_id="c1", status=pb.TaskStatus(state=6))
        told = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
        assert a2a_grpc.read(version, "Task", task.SerializeToString()) == told
        assert a2a_grpc.read(version, "Sent", pb.SendMessageResponse(task=task).SerializeToString()) == {"task": told}
        update = pb.StreamResponse(
            status_update=pb.TaskStatusUpdateEvent(task_id="t1", context_id="c1", status=pb.TaskStatus(state=3))
        )
        assert a2a_grpc.read(version, "Update", update.SerializeToString()) == {
            "statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
        }
        get = pb.GetTaskRequest(id="t1") if version == "1.0" else pb.GetTaskRequest(name="tasks/t1")
        assert (a2a_grpc.read(version, "Named", get.SerializeToString()) or {})["id"] == "t1"
        card = pb.AgentCard(name="Echo", version="1", skills=[pb.AgentSkill(id="echo", name="Echo", tags=["a", "b"])])
        read = a2a_grpc.read(version, "Card", card.SerializeToString())
        assert read is not None and read["skills"] == [{"id": "echo", "name": "Echo", "tags": ["a", "b"]}]


@pytest.mark.sdk
def test_every_method_of_both_services_that_carries_a_task_is_known() -> None:
    for _, pb in both():
        (service,) = pb.DESCRIPTOR.services_by_name.values()
        names = {m.name for m in service.methods if "PushNotification" not in m.name}
        assert names <= set(a2a_grpc.METHODS)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05abc", b"\xff" * 12, b"\x0b\x01", b"\x02\x00", b"\x0a\x02\x0a\x05", bytes(100)],
)
def test_what_does_not_parse(data: bytes) -> None:
    assert a2a_grpc.read("1.0", "Sent", data) is None
    assert a2a_grpc.read("9.9", "Sent", data) is None and a2a_grpc.read("1.0", "Nothing", data) is None


def test_nesting_and_numbers_are_bounded() -> None:
    data = b""
    for _ in range(100):
        data = b"\x0a" + bytes([min(127, len(data))]) + data[:127]
    a2a_grpc.read("1.0", "Sent", data)
    assert a2a_grpc.read("1.0", "Task", b"\x50\x00" * 30_000) is None

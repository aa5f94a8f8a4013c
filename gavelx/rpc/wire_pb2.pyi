from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobSpec(_message.Message):
    __slots__ = ("name", "job_type", "workers", "total_steps", "weight", "command", "environment", "one_process_per_server", "slo", "duration_s", "steps_per_s", "request_id", "preemptible", "retries", "restart_if_silent_s", "elasticity")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class StepsPerSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ONE_PROCESS_PER_SERVER_FIELD_NUMBER: _ClassVar[int]
    SLO_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_S_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    RESTART_IF_SILENT_S_FIELD_NUMBER: _ClassVar[int]
    ELASTICITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    job_type: str
    workers: int
    total_steps: float
    weight: float
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    one_process_per_server: bool
    slo: float
    duration_s: float
    steps_per_s: _containers.ScalarMap[str, float]
    request_id: str
    preemptible: str
    retries: int
    restart_if_silent_s: float
    elasticity: str
    def __init__(self, name: _Optional[str] = ..., job_type: _Optional[str] = ..., workers: _Optional[int] = ..., total_steps: _Optional[float] = ..., weight: _Optional[float] = ..., command: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., one_process_per_server: bool = ..., slo: _Optional[float] = ..., duration_s: _Optional[float] = ..., steps_per_s: _Optional[_Mapping[str, float]] = ..., request_id: _Optional[str] = ..., preemptible: _Optional[str] = ..., retries: _Optional[int] = ..., restart_if_silent_s: _Optional[float] = ..., elasticity: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("version", "jobs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    version: int
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    def __init__(self, version: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("version", "job_ids", "ended", "limit")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    ended: bool
    limit: int
    def __init__(self, version: _Optional[int] = ..., job_ids: _Optional[_Iterable[int]] = ..., ended: bool = ..., limit: _Optional[int] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "name", "owner", "job_type", "workers", "state", "steps_done", "total_steps", "promised_share", "promised_s", "received_s", "accelerator", "servers", "submitted_s_ago", "spent_usd", "failures", "reason", "weight", "duration_s", "restarts", "lost_s", "protected", "said_steps", "left_s", "left_lower_s", "left_upper_s", "elasticity", "devices", "batch", "determinism", "order", "sizes", "silent_s", "usual_step_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STEPS_DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    PROMISED_SHARE_FIELD_NUMBER: _ClassVar[int]
    PROMISED_S_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_S_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_AGO_FIELD_NUMBER: _ClassVar[int]
    SPENT_USD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    LOST_S_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    SAID_STEPS_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    LEFT_LOWER_S_FIELD_NUMBER: _ClassVar[int]
    LEFT_UPPER_S_FIELD_NUMBER: _ClassVar[int]
    ELASTICITY_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DETERMINISM_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    USUAL_STEP_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    name: str
    owner: str
    job_type: str
    workers: int
    state: str
    steps_done: float
    total_steps: float
    promised_share: float
    promised_s: float
    received_s: float
    accelerator: str
    servers: _containers.RepeatedScalarFieldContainer[str]
    submitted_s_ago: float
    spent_usd: float
    failures: int
    reason: str
    weight: float
    duration_s: float
    restarts: int
    lost_s: float
    protected: bool
    said_steps: float
    left_s: float
    left_lower_s: float
    left_upper_s: float
    elasticity: str
    devices: int
    batch: int
    determinism: str
    order: str
    sizes: _containers.RepeatedCompositeFieldContainer[SizeShare]
    silent_s: float
    usual_step_s: float
    def __init__(self, job_id: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., job_type: _Optional[str] = ..., workers: _Optional[int] = ..., state: _Optional[str] = ..., steps_done: _Optional[float] = ..., total_steps: _Optional[float] = ..., promised_share: _Optional[float] = ..., promised_s: _Optional[float] = ..., received_s: _Optional[float] = ..., accelerator: _Optional[str] = ..., servers: _Optional[_Iterable[str]] = ..., submitted_s_ago: _Optional[float] = ..., spent_usd: _Optional[float] = ..., failures: _Optional[int] = ..., reason: _Optional[str] = ..., weight: _Optional[float] = ..., duration_s: _Optional[float] = ..., restarts: _Optional[int] = ..., lost_s: _Optional[float] = ..., protected: bool = ..., said_steps: _Optional[float] = ..., left_s: _Optional[float] = ..., left_lower_s: _Optional[float] = ..., left_upper_s: _Optional[float] = ..., elasticity: _Optional[str] = ..., devices: _Optional[int] = ..., batch: _Optional[int] = ..., determinism: _Optional[str] = ..., order: _Optional[str] = ..., sizes: _Optional[_Iterable[_Union[SizeShare, _Mapping]]] = ..., silent_s: _Optional[float] = ..., usual_step_s: _Optional[float] = ...) -> None: ...

class SizeShare(_message.Message):
    __slots__ = ("accelerator", "devices", "batch", "share")
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    accelerator: str
    devices: int
    batch: int
    share: float
    def __init__(self, accelerator: _Optional[str] = ..., devices: _Optional[int] = ..., batch: _Optional[int] = ..., share: _Optional[float] = ...) -> None: ...

class ServerStatus(_message.Message):
    __slots__ = ("server_id", "name", "accelerator", "devices", "leased", "state", "reason", "heard_s_ago", "lent")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEARD_S_AGO_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    server_id: int
    name: str
    accelerator: str
    devices: int
    leased: int
    state: str
    reason: str
    heard_s_ago: float
    lent: int
    def __init__(self, server_id: _Optional[int] = ..., name: _Optional[str] = ..., accelerator: _Optional[str] = ..., devices: _Optional[int] = ..., leased: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., heard_s_ago: _Optional[float] = ..., lent: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("jobs", "servers", "policy", "rounds", "round_s", "waiting", "running", "ended", "left_out", "certificate_json")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ROUND_S_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_JSON_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    servers: _containers.RepeatedCompositeFieldContainer[ServerStatus]
    policy: str
    rounds: int
    round_s: float
    waiting: int
    running: int
    ended: int
    left_out: int
    certificate_json: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., servers: _Optional[_Iterable[_Union[ServerStatus, _Mapping]]] = ..., policy: _Optional[str] = ..., rounds: _Optional[int] = ..., round_s: _Optional[float] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ..., ended: _Optional[int] = ..., left_out: _Optional[int] = ..., certificate_json: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("version", "job_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_id: int
    def __init__(self, version: _Optional[int] = ..., job_id: _Optional[int] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("explanation_json",)
    EXPLANATION_JSON_FIELD_NUMBER: _ClassVar[int]
    explanation_json: str
    def __init__(self, explanation_json: _Optional[str] = ...) -> None: ...

class SpeedsRequest(_message.Message):
    __slots__ = ("version", "job_type")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_type: str
    def __init__(self, version: _Optional[int] = ..., job_type: _Optional[str] = ...) -> None: ...

class SpeedsReply(_message.Message):
    __slots__ = ("speeds_json",)
    SPEEDS_JSON_FIELD_NUMBER: _ClassVar[int]
    speeds_json: str
    def __init__(self, speeds_json: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("version", "job_id", "follow", "offset")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_id: int
    follow: bool
    offset: int
    def __init__(self, version: _Optional[int] = ..., job_id: _Optional[int] = ..., follow: bool = ..., offset: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("text", "server", "rank", "lease_id", "dropped", "removed")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    server: str
    rank: int
    lease_id: int
    dropped: int
    removed: str
    def __init__(self, text: _Optional[bytes] = ..., server: _Optional[str] = ..., rank: _Optional[int] = ..., lease_id: _Optional[int] = ..., dropped: _Optional[int] = ..., removed: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("version", "job_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_id: int
    def __init__(self, version: _Optional[int] = ..., job_id: _Optional[int] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("version", "server", "undo")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    version: int
    server: str
    undo: bool
    def __init__(self, version: _Optional[int] = ..., server: _Optional[str] = ..., undo: bool = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: int
    def __init__(self, leases: _Optional[int] = ...) -> None: ...

class OfferRequest(_message.Message):
    __slots__ = ("version", "server", "devices", "notice_s")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    NOTICE_S_FIELD_NUMBER: _ClassVar[int]
    version: int
    server: str
    devices: int
    notice_s: float
    def __init__(self, version: _Optional[int] = ..., server: _Optional[str] = ..., devices: _Optional[int] = ..., notice_s: _Optional[float] = ...) -> None: ...

class OfferReply(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: int
    def __init__(self, leases: _Optional[int] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("version", "policy")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    version: int
    policy: str
    def __init__(self, version: _Optional[int] = ..., policy: _Optional[str] = ...) -> None: ...

class SetPolicyReply(_message.Message):
    __slots__ = ("policy", "before")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    policy: str
    before: str
    def __init__(self, policy: _Optional[str] = ..., before: _Optional[str] = ...) -> None: ...

class FromAgent(_message.Message):
    __slots__ = ("hello", "heartbeat", "ended", "log_part", "refused")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LOG_PART_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    ended: Ended
    log_part: LogPart
    refused: Refused
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., log_part: _Optional[_Union[LogPart, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class ToAgent(_message.Message):
    __slots__ = ("welcome", "renewed", "launch", "stop", "acknowledged", "send_log")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    SEND_LOG_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    renewed: Renewed
    launch: Launch
    stop: Stop
    acknowledged: Acknowledged
    send_log: SendLog
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., launch: _Optional[_Union[Launch, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., acknowledged: _Optional[_Union[Acknowledged, _Mapping]] = ..., send_log: _Optional[_Union[SendLog, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "name", "address", "accelerator", "devices", "boot_id", "leases", "agent_version", "log_mark", "agent_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOG_MARK_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    version: int
    name: str
    address: str
    accelerator: str
    devices: int
    boot_id: str
    leases: _containers.RepeatedCompositeFieldContainer[LeaseReport]
    agent_version: str
    log_mark: str
    agent_id: str
    def __init__(self, version: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., accelerator: _Optional[str] = ..., devices: _Optional[int] = ..., boot_id: _Optional[str] = ..., leases: _Optional[_Iterable[_Union[LeaseReport, _Mapping]]] = ..., agent_version: _Optional[str] = ..., log_mark: _Optional[str] = ..., agent_id: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("server_id", "heartbeat_s", "grace_s", "log_bytes", "log_id")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    server_id: int
    heartbeat_s: float
    grace_s: float
    log_bytes: int
    log_id: str
    def __init__(self, server_id: _Optional[int] = ..., heartbeat_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., log_bytes: _Optional[int] = ..., log_id: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sent_s", "leases", "leaving")
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    sent_s: float
    leases: _containers.RepeatedCompositeFieldContainer[LeaseReport]
    leaving: bool
    def __init__(self, sent_s: _Optional[float] = ..., leases: _Optional[_Iterable[_Union[LeaseReport, _Mapping]]] = ..., leaving: bool = ...) -> None: ...

class LeaseReport(_message.Message):
    __slots__ = ("lease_id", "job_id", "steps_done", "saved_steps", "held_s", "steps_per_s", "memory_bytes", "device_use", "total_steps", "sizes", "next_id", "leaving", "handover", "training", "silent_s", "usual_step_s")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_DONE_FIELD_NUMBER: _ClassVar[int]
    SAVED_STEPS_FIELD_NUMBER: _ClassVar[int]
    HELD_S_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_USE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    NEXT_ID_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    USUAL_STEP_S_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    job_id: int
    steps_done: float
    saved_steps: float
    held_s: float
    steps_per_s: float
    memory_bytes: int
    device_use: float
    total_steps: float
    sizes: int
    next_id: int
    leaving: int
    handover: Handover
    training: Training
    silent_s: float
    usual_step_s: float
    def __init__(self, lease_id: _Optional[int] = ..., job_id: _Optional[int] = ..., steps_done: _Optional[float] = ..., saved_steps: _Optional[float] = ..., held_s: _Optional[float] = ..., steps_per_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., device_use: _Optional[float] = ..., total_steps: _Optional[float] = ..., sizes: _Optional[int] = ..., next_id: _Optional[int] = ..., leaving: _Optional[int] = ..., handover: _Optional[_Union[Handover, _Mapping]] = ..., training: _Optional[_Union[Training, _Mapping]] = ..., silent_s: _Optional[float] = ..., usual_step_s: _Optional[float] = ...) -> None: ...

class Training(_message.Message):
    __slots__ = ("epochs", "epoch_samples", "first_loss", "loss", "accuracy", "determinism", "order")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    FIRST_LOSS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    DETERMINISM_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    epochs: float
    epoch_samples: float
    first_loss: float
    loss: float
    accuracy: float
    determinism: str
    order: str
    def __init__(self, epochs: _Optional[float] = ..., epoch_samples: _Optional[float] = ..., first_loss: _Optional[float] = ..., loss: _Optional[float] = ..., accuracy: _Optional[float] = ..., determinism: _Optional[str] = ..., order: _Optional[str] = ...) -> None: ...

class Handover(_message.Message):
    __slots__ = ("before_id", "steps_done", "held_s", "warm_s")
    BEFORE_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_DONE_FIELD_NUMBER: _ClassVar[int]
    HELD_S_FIELD_NUMBER: _ClassVar[int]
    WARM_S_FIELD_NUMBER: _ClassVar[int]
    before_id: int
    steps_done: float
    held_s: float
    warm_s: float
    def __init__(self, before_id: _Optional[int] = ..., steps_done: _Optional[float] = ..., held_s: _Optional[float] = ..., warm_s: _Optional[float] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("sent_s", "valid_for_s", "lease_ids", "log_mark")
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    LOG_MARK_FIELD_NUMBER: _ClassVar[int]
    sent_s: float
    valid_for_s: float
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    log_mark: str
    def __init__(self, sent_s: _Optional[float] = ..., valid_for_s: _Optional[float] = ..., lease_ids: _Optional[_Iterable[int]] = ..., log_mark: _Optional[str] = ...) -> None: ...

class Launch(_message.Message):
    __slots__ = ("lease_id", "job_id", "job_type", "command", "environment", "slots", "world_size", "first_rank", "processes", "master_address", "master_port", "until_step", "saved_steps", "steps_per_s", "owner", "name", "sent_s", "valid_for_s", "folder", "log_mark", "elasticity", "workers", "size", "numbers", "restart_if_silent_s", "continues")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_STEP_FIELD_NUMBER: _ClassVar[int]
    SAVED_STEPS_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_S_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_S_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    LOG_MARK_FIELD_NUMBER: _ClassVar[int]
    ELASTICITY_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    RESTART_IF_SILENT_S_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    job_id: int
    job_type: str
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    slots: _containers.RepeatedScalarFieldContainer[int]
    world_size: int
    first_rank: int
    processes: int
    master_address: str
    master_port: int
    until_step: float
    saved_steps: float
    steps_per_s: float
    owner: str
    name: str
    sent_s: float
    valid_for_s: float
    folder: str
    log_mark: str
    elasticity: str
    workers: int
    size: Size
    numbers: _containers.RepeatedScalarFieldContainer[int]
    restart_if_silent_s: float
    continues: int
    def __init__(self, lease_id: _Optional[int] = ..., job_id: _Optional[int] = ..., job_type: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., slots: _Optional[_Iterable[int]] = ..., world_size: _Optional[int] = ..., first_rank: _Optional[int] = ..., processes: _Optional[int] = ..., master_address: _Optional[str] = ..., master_port: _Optional[int] = ..., until_step: _Optional[float] = ..., saved_steps: _Optional[float] = ..., steps_per_s: _Optional[float] = ..., owner: _Optional[str] = ..., name: _Optional[str] = ..., sent_s: _Optional[float] = ..., valid_for_s: _Optional[float] = ..., folder: _Optional[str] = ..., log_mark: _Optional[str] = ..., elasticity: _Optional[str] = ..., workers: _Optional[int] = ..., size: _Optional[_Union[Size, _Mapping]] = ..., numbers: _Optional[_Iterable[int]] = ..., restart_if_silent_s: _Optional[float] = ..., continues: _Optional[int] = ...) -> None: ...

class Size(_message.Message):
    __slots__ = ("generation", "rank_of_number", "batch", "parts_of_rank")
    class RankOfNumberEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_OF_NUMBER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_OF_RANK_FIELD_NUMBER: _ClassVar[int]
    generation: int
    rank_of_number: _containers.ScalarMap[int, int]
    batch: int
    parts_of_rank: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, generation: _Optional[int] = ..., rank_of_number: _Optional[_Mapping[int, int]] = ..., batch: _Optional[int] = ..., parts_of_rank: _Optional[_Iterable[int]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("lease_id", "reason")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    reason: str
    def __init__(self, lease_id: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("report_id", "lease_id", "job_id", "steps_done", "held_s", "failed", "complete", "exit_code", "reason", "left")
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_DONE_FIELD_NUMBER: _ClassVar[int]
    HELD_S_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    report_id: str
    lease_id: int
    job_id: int
    steps_done: float
    held_s: float
    failed: bool
    complete: bool
    exit_code: int
    reason: str
    left: bool
    def __init__(self, report_id: _Optional[str] = ..., lease_id: _Optional[int] = ..., job_id: _Optional[int] = ..., steps_done: _Optional[float] = ..., held_s: _Optional[float] = ..., failed: bool = ..., complete: bool = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ..., left: bool = ...) -> None: ...

class Acknowledged(_message.Message):
    __slots__ = ("report_id",)
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    report_id: str
    def __init__(self, report_id: _Optional[str] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("lease_id", "job_id", "reason", "of_another_job")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OF_ANOTHER_JOB_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    job_id: int
    reason: str
    of_another_job: bool
    def __init__(self, lease_id: _Optional[int] = ..., job_id: _Optional[int] = ..., reason: _Optional[str] = ..., of_another_job: bool = ...) -> None: ...

class SendLog(_message.Message):
    __slots__ = ("request_id", "job_id", "offset", "follow", "end", "room", "more")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: int
    offset: int
    follow: bool
    end: bool
    room: int
    more: int
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[int] = ..., offset: _Optional[int] = ..., follow: bool = ..., end: bool = ..., room: _Optional[int] = ..., more: _Optional[int] = ...) -> None: ...

class LogPart(_message.Message):
    __slots__ = ("request_id", "chunk", "last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    chunk: LogChunk
    last: bool
    def __init__(self, request_id: _Optional[str] = ..., chunk: _Optional[_Union[LogChunk, _Mapping]] = ..., last: bool = ...) -> None: ...

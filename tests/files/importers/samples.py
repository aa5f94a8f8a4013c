"""A small file of every layout that is imported, written by hand after the public ones."""

import json
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """A file: its format, its text, and how many jobs it has."""

    format: str
    text: str
    jobs: int


def tabs(*fields: object) -> str:
    return "\t".join(map(str, fields))


def attempt(start: str | None, end: str | None, *servers: int) -> dict[str, object]:
    """An attempt of the Philly log on so many GPUs of each server."""
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{k}" for k in range(n)]} for i, n in enumerate(servers)]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly(jobid: int, status: str, submitted: str, *attempts: dict[str, object]) -> dict[str, object]:
    """A job of the Philly log."""
    return {
        "status": status,
        "vc": "6214e9",
        "jobid": f"application_1506638472019_{jobid}",
        "attempts": list(attempts),
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


LM = ("LM (batch size 5)", "python3 main.py --batch_size 5", "lm", "--steps", 0, 1000, 2)
RESNET = ("ResNet-18 (batch size 32)", "python3 main.py", "cifar10", "--num_steps", 1, 500, 1)

PHILLY = [
    philly(1, "Pass", "2017-10-07 01:11:39", attempt("2017-10-07 01:12:00", "2017-10-07 01:13:00", 8)),
    philly(
        2,
        "Killed",
        "2017-10-07 01:11:49",
        attempt("2017-10-07 01:20:00", "2017-10-07 01:21:00", 4, 4),
        attempt("2017-10-07 02:00:00", "2017-10-07 03:00:00", 4, 4),
    ),
    philly(3, "Failed", "2017-10-07 02:11:39", attempt("2017-10-07 02:12:00", "2017-10-07 02:13:00", 1)),
    philly(4, "Killed", "2017-10-07 02:12:39"),
    philly(5, "Pass", "2017-10-07 02:13:39", attempt("2017-10-07 02:14:00", None, 1)),
    philly(6, "Pass", "2017-10-07 01:11:29", attempt("2017-10-07 01:12:00", "2017-10-07 02:12:00", 1)),
]

SAMPLES = {
    "gavel": Sample("gavel", tabs(*LM, 5.0, "-1.000000", 0) + "\n" + tabs(*RESNET, 1, 1.5, 7.5) + "\n", 2),
    "shockwave": Sample(
        "shockwave",
        tabs(*LM, "gns", 1, "-1.000000", 300, 0) + "\n" + tabs(*RESNET, "accordion", 1, -1, 3338, 55) + "\n",
        2,
    ),
    "philly_log": Sample("philly", json.dumps(PHILLY, indent=4), 3),
    "philly_list": Sample(
        "philly",
        "job_id,submit_time,duration_s,num_gpus\n"
        "0,2017-09-26 22:24:39,14580.0,1\n1,2017-09-26 22:24:44,100.0,24\n2,2017-09-26 22:30:00,0.0,1\n",
        2,
    ),
    "philly_pollux": Sample(
        "philly",
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,4,11804.0,6214e9\n",
        2,
    ),
    "pollux": Sample(
        "pollux",
        "name,time,application,num_replicas,batch_size\n"
        "cifar10-0,107,cifar10,6,2048\ndeepspeech2-1,110.5,deepspeech2,1,20\nncf-2,135,ncf,4,1024\n"
        "bert-3,262,bert,12,384\nyolov3-4,300,yolov3,4,64\nimagenet-5,400,imagenet,32,6400\n",
        6,
    ),
    "elasticflow": Sample(
        "elasticflow",
        "job_id,arrival_s,model,global_batch_size,num_gpus,total_steps,duration_s,deadline_s\n"
        "0,3715485.0,cifar10,4096,1,2011.0,5644.0,3719996.0\n1,3717550.0,ncf,32768,8,1548.0,66.0,3717583.0\n",
        2,
    ),
    "ones": Sample(
        "ones",
        "job_id,arrival_s,model,task,epoch_size,batch_size,num_gpus,target_accuracy\n"
        "0,0.0,resnet50,imagenet,10000,32,16,0.55\n1,39.0,bert,cola,8000,16,2,0.8\n2,77.0,vgg16,cifar,20000,128,4,0.7\n",
        3,
    ),
    "alibaba2020": Sample(
        "alibaba2020",
        "4f057009a5d4,tensorflow,1.0,Terminated,1739162.0,1742762.0,600.0,29.296875,50.0,MISC\n"
        "af724763f4f5,ps,1.0,Terminated,1739000.0,1739200.0,600.0,29.3,,\n"
        "af724763f4f5,worker,2.0,Terminated,1739010.0,1739210.0,600.0,29.3,100.0,V100\n"
        "af724763f4f5,evaluator,1.0,Terminated,1739100.0,1739200.0,600.0,29.3,100.0,V100\n"
        "aaaa4763f4f5,worker,4.0,Failed,1739000.0,1739300.0,600.0,29.3,100.0,P100\n"
        "bbbb4763f4f5,worker,4.0,Waiting,,,600.0,29.3,100.0,P100\n",
        2,
    ),
    "alibaba2023": Sample(
        "alibaba2023",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
        "creation_time,deletion_time,scheduled_time\n"
        "openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,9447497,9437507\n"
        "openb-pod-0022,4000,15258,1,220,V100M16|V100M32,BE,Running,9679175,9680175,9679175\n"
        "openb-pod-0033,3152,5600,1,1000,,BE,Failed,9965463,9965645,9965463\n"
        "openb-pod-0048,8000,30517,0,0,,BE,Running,9992086,10013821,9992086\n"
        "openb-pod-0061,11908,47104,1,1000,,BE,Pending,10001278,10001403,\n",
        2,
    ),
    "slurm": Sample(
        "slurm",
        "JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|State|AllocTRES|NNodes|Priority\n"
        "101|train|ann|vision|gpu|2024-03-01T10:00:00|2024-03-01T10:05:00|2024-03-02T11:05:00|1-01:00:00|COMPLETED|"
        "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=1|1|4294\n"
        "101.batch|batch||vision||2024-03-01T10:05:00|2024-03-01T10:05:00|2024-03-02T11:05:00|1-01:00:00|COMPLETED|"
        "cpu=8,gres/gpu=4,mem=64G,node=1|1|\n"
        "102_7|sweep|bob|nlp|gpu|2024-03-01T09:00:00|2024-03-01T09:00:10|2024-03-01T09:30:10|00:30:00|"
        "CANCELLED by 1002|cpu=4,gres/gpu:a100=1,node=1|1|4294\n"
        "103|cpu|bob|nlp|cpu|2024-03-01T09:00:00|2024-03-01T09:00:10|2024-03-01T09:30:10|00:30:00|COMPLETED|"
        "cpu=4,node=1|1|1\n"
        "104|bug|ann|vision|gpu|2024-03-01T09:10:00|2024-03-01T09:11:00|2024-03-01T09:11:09|00:00:09|FAILED|"
        "cpu=4,gres/gpu=1,node=1|1|1\n"
        "105|early|ann|vision|gpu|2024-03-01T09:10:00|None|2024-03-01T09:11:00|00:00:00|CANCELLED by 1001|"
        "cpu=4,gres/gpu=1,node=1|1|1\n"
        "106|now|ann|vision|gpu|2024-03-01T12:00:00|2024-03-01T12:00:00|Unknown|00:10:00|RUNNING|"
        "cpu=4,gres/gpu=1,node=1|1|1\n",
        2,
    ),
    "csv": Sample(
        "csv",
        "job_id,arrival_s,job_type,model,batch_size,scale_factor,total_steps,priority_weight,slo,duration_s,mode\n"
        "3,0.0,LM (batch size 10),LM,10,1,134583,1.0,,1418.0,gns\n"
        "1,55.0,ResNet-18 (batch size 32),ResNet-18,32,2,143450,5.0,1.2,3338.0,static\n",
        2,
    ),
}


def write(folder: Path, name: str) -> Path:
    """The sample as a file."""
    path = folder / f"{name}.txt"
    path.write_text(SAMPLES[name].text)
    return path

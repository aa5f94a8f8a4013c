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


def record(  # noqa: PLR0917
    job: int,
    user: str,
    name: str,
    state: str,
    submit: int,
    start: int | None,
    end: int,
    tres: str,
    array: str = "",
) -> str:
    """A record of Slurm's job completion log; times are minutes after ten."""

    def time(minutes: int | None) -> str:
        return "Unknown" if minutes is None else f"2024-03-01T{10 + minutes // 60}:{minutes % 60:02}:00"

    return (
        f"JobId={job} UserId={user}(1001) GroupId=lab(100) Name={name} JobState={state} Partition=gpu "
        f"TimeLimit=1440 StartTime={time(start)} EndTime={time(end)} NodeList=a[1-2] NodeCnt=2 ProcCnt=16 "
        f"WorkDir=/home/{user}/my runs "
        f"ReservationName= Tres={tres} Account=nlp QOS=normal WcKey=* Cluster=c SubmitTime={time(submit)} "
        f"EligibleTime={time(submit)}{array} DerivedExitCode=0:0 ExitCode=0:0 \n"
    )


LM = ("LM (batch size 5)", "python3 main.py --batch_size 5", "lm", "--steps", 0, 1000, 2)
RESNET = ("ResNet-18 (batch size 32)", "python3 main.py", "cifar10", "--num_steps", 1, 500, 1)

SEVEN = (*LM[:2], *LM[3:6])
"""The first fields of an older Gavel trace, without the working directory."""

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
    "gavel_seven": Sample(
        "gavel",
        tabs(*SEVEN, "0.000000", 1) + "\n" + tabs(*SEVEN, "303.000000", 8) + "\n" + tabs(*SEVEN, 400, 0) + "\n",
        2,
    ),
    "gavel_nine": Sample(
        "gavel", tabs(*SEVEN, 2, 5.0, "-1.000000", 0) + "\n" + tabs(*SEVEN, 1, 1, 1.5, 7.5) + "\n", 2
    ),
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
    "elasticflow_trace": Sample(  # as in pkusys/ElasticFlow
        "elasticflow",
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,3715485,2011,cifar10,3719996,4096,1,5644,0\n1,3717550,1548,ncf,3717583,32768,8,66,0\n"
        "6,3821474,14577,yolov3,3832082,64,16,17119,0\n7,3721372,1548,inception3,3721428,128,4,6600,1\n",
        4,
    ),
    "elasticflow_microsoft": Sample(  # as in microsoft/elasticflow-traces
        "elasticflow",
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "6b2d9ccc-6279,16566,40285,bert,21347,64,4,3890\n7c2d9ccc-6280,-120,1000,gpt2,3000,128,8,2000\n",
        2,
    ),
    "elasticflow_raw": Sample(
        "elasticflow",
        "job_id,submission_time,duration,num_gpu\n6b2d9ccc-6279,16566,3890,4\n7c2d9ccc-6280,16570,60,0\n"
        "8d2d9ccc-6281,17000,7200,64\n",
        2,
    ),
    "elasticflow_pollux": Sample(
        "pollux",
        "name,time,application,num_replicas,batch_size,ddl,samples\n"
        "cifar10-0,3715485,cifar10,1,4096,3719996,\nvgg-1,3717550,vgg16,8,64,3727583,3089024\n",
        2,
    ),
    "tiresias": Sample(
        "tiresias",
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n2,2,53,157,inception4,127,26\n3,4,99,138,alexnet,0,33\n",
        3,
    ),
    "helios": Sample(
        "helios",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "11,uAnn1,vcLab,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 19:41:01,3600,0\n"
        "12,uBob1,vcNlp,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 19:12:27,1800,60\n"
        "13,uCat1,vcLab,16,64,2,CANCELLED,2020-06-09 18:41:28,2020-06-09 19:41:28,2020-06-09 20:41:28,3600,3600\n"
        "14,uCat1,vcLab,0,64,2,COMPLETED,2020-06-09 18:41:28,2020-06-09 19:41:28,2020-06-09 20:41:28,3600,3600\n"
        "15,uCat1,vcLab,2,64,2,CANCELLED,2020-06-09 18:43:28,,,0,0\n",
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
    "jobcomp": Sample(
        "jobcomp",
        record(
            7, "ann", "train lr=0.1 x", "COMPLETED", 0, 5, 65, "cpu=8,mem=64G,node=1,gres/gpu=4,gres/gpu:a100=4"
        )
        + record(8, "bob", "run.sh", "FAILED", 1, 2, 12, "cpu=16,node=2,billing=16,gres/gpu=16")
        + record(9, "bob", "run.sh", "CANCELLED", 2, None, 12, "cpu=16,node=1,gres/gpu=1")
        + record(10, "ann", "cpu", "COMPLETED", 3, 4, 50, "cpu=16,mem=240000M,node=1,billing=16")
        + record(
            11,
            "bob",
            "run.sh",
            "TIMEOUT",
            4,
            4,
            44,
            "cpu=16,node=2,gres/gpu:v100=8",
            " ArrayJobId=9 ArrayTaskId=1",
        )
        + record(12, "bob", "run.sh", "COMPLETED", 5, 5, 5, "gres/gpu:v100=8"),
        2,
    ),
    "swf": Sample(
        "swf",
        "; Version: 2.2\n"
        "; UnixStartTime: 893664000\n"
        "1 0 10 3600 8 3500 -1 8 7200 -1 1 3 1 1 1 -1 -1 -1\n"
        "2 60 -1 -1 -1 -1 -1 4 3600 -1 5 3 1 1 1 -1 -1 -1\n"
        "3 90 30 0 4 -1 -1 4 3600 -1 0 4 1 1 1 -1 1 10\n"
        "4 95 5 60 -1 -1 -1 2 3600 -1 -1 -1 1 1 1 -1 1 10\n",
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

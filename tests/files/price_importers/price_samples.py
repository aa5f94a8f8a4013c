"""A short file of each format of price lists, written as its source writes it."""

import json

SKYPILOT = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
cpu_4x_general,,,4.0,16.0,0.2,us-east-1,,
gpu_8x_v100,V100,8.0,92.0,448.0,6.32,us-east-1,"{'Gpus': [{'Name': 'V100', 'Count': 8.0}]}",
p3.2xlarge,V100,1.0,8.0,61.0,3.06,us-east-1,,0.918
,A100,1.0,,,2.93,us-central1,,1.17
"""
AWS = json.dumps(
    {
        "SpotPriceHistory": [
            {
                "AvailabilityZone": "us-east-1a",
                "InstanceType": kind,
                "ProductDescription": system,
                "SpotPrice": usd,
                "Timestamp": time,
            }
            for kind, system, usd, time in (
                ("p3.8xlarge", "Linux/UNIX", "3.672000", "2024-03-01T12:00:00+00:00"),
                ("p3.8xlarge", "Linux/UNIX", "3.700000", "2024-03-01T10:00:00+00:00"),
                ("p3.8xlarge", "Windows", "9.672000", "2024-03-01T10:00:00+00:00"),
                ("m5.large", "Linux/UNIX", "0.035000", "2024-03-01T10:00:00+00:00"),
            )
        ]
    },
    indent=1,
)
_AZURE = {
    "currencyCode": "USD",
    "armRegionName": "eastus",
    "armSkuName": "Standard_NC6s_v3",
    "skuName": "NC6s v3",
    "productName": "Virtual Machines NCSv3 Series",
    "type": "Consumption",
    "retailPrice": 3.06,
    "unitOfMeasure": "1 Hour",
    "effectiveStartDate": "2023-09-01T00:00:00Z",
}
AZURE = json.dumps(
    {
        "Items": [
            _AZURE,
            _AZURE | {"skuName": "NC6s v3 Spot", "retailPrice": 0.612},
            _AZURE | {"skuName": "NC6s v3 Low Priority", "retailPrice": 0.612},
            _AZURE | {"productName": "Virtual Machines NCSv3 Series Windows", "retailPrice": 3.3},
            _AZURE | {"type": "Reservation", "reservationTerm": "1 Year", "retailPrice": 17107.0},
            _AZURE | {"type": "Reservation", "reservationTerm": "3 Years", "retailPrice": 30000.0},
            _AZURE | {"type": "DevTestConsumption"},
            _AZURE | {"armSkuName": "Standard_D4s_v5"},
        ],
        "NextPageLink": None,
    },
    indent=1,
)
GCP = """\
---
about:
  copyright: |2

    Copyright: all of it

  generated: Thu Mar  6 03:53:56 2025
  timestamp: 1741233236
  url: https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator
compute:
  instance:
    a2-highgpu-1g:
      a100: 1
      cost:
        asia-northeast1:
          hour: 3.790142
          hour_spot: 1.1020155
          month: 2766.80366
          month_1y: 1743.0630772
        us-central1:
          hour: 3.673385
          hour_spot: 0
      cpu: 12
      ram: 85
    e2-micro:
      cost:
        us-central1:
          hour: 0.01
      cpu: 2
      ram: 1
"""
CSV = """\
accelerator,price_usd_per_hour,accelerator_count,cloud,currency
v100,3.06,1,mine,
h100,80,8,mine,EUR
"""
SAMPLES = {"skypilot": SKYPILOT, "aws-spot": AWS, "azure": AZURE, "gcp": GCP, "csv": CSV}

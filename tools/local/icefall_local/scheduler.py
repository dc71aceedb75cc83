"""What stands for EventBridge Scheduler: an asynchronous invocation at a fixed rate.

On AWS the rate is a minute and the target's reserved concurrency is 1, so that a tick while the function
runs is throttled and dropped when it is older than its event age. Locally the rate is seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid

from icefall_local.lambda_host import HostedFunction


def scheduled_event(region: str) -> bytes:
    """The event a schedule delivers."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps(
        {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.scheduler",
            "account": "000000000000",
            "time": now,
            "region": region,
            "resources": [f"arn:aws:scheduler:{region}:000000000000:schedule/default/icefall-committer"],
            "detail": "{}",
        }
    ).encode()


async def run(function: HostedFunction, every_s: float, phase_s: float = 0.0) -> None:
    """Until cancelled, first after `phase_s`. Ticks that were missed are not made up for."""
    await asyncio.sleep(phase_s)
    while True:
        function.invoke_later(scheduled_event(function.config.region))
        await asyncio.sleep(every_s)

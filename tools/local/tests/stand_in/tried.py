"""A function that does what its event says: for the tests of the Lambda host."""

import os
import sys
import time

from runtime import serve


def handle(event, headers):
    match event.get("do"):
        case "sleep":
            time.sleep(event["seconds"])
        case "exit":
            sys.stdout.flush()
            os._exit(event["code"])
        case "raise":
            raise ValueError("as asked")
        case "large":
            return "x" * event["bytes"]
        case "burn":
            until = time.process_time() + event["seconds"]
            while time.process_time() < until:
                pass
    return {
        "pid": os.getpid(),
        "left_ms": int(headers["Lambda-Runtime-Deadline-Ms"]) - time.time() * 1000,
        "arn": headers["Lambda-Runtime-Invoked-Function-Arn"],
        "memory": os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        "keys": [name for name in os.environ if name.startswith("AWS_ACCESS") or name.startswith("AWS_SECRET")],
        "given": os.environ.get("GIVEN"),
    }


serve(handle)

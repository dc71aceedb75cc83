"""A Lambda runtime of a few lines, for stand-ins of the functions: polls the Runtime API and answers."""

import json
import os
import traceback
import urllib.request


def serve(handler):
    base = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation/"
    while True:
        with urllib.request.urlopen(f"{base}next") as answer:
            event, headers = json.load(answer), answer.headers
        request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        try:
            path, body = "response", handler(event, headers)
        except Exception as problem:
            traceback.print_exc()
            path, body = "error", {"errorType": type(problem).__name__, "errorMessage": str(problem)}
        request = urllib.request.Request(f"{base}{request_id}/{path}", json.dumps(body).encode(), method="POST")
        urllib.request.urlopen(request).close()

"""Owns everything that is up: starts it in order, answers for it, and stops it when its lease ends.

It is a process of its own, so that a stack can outlive the command that started it. Its standard input is
the lease: as long as the other end is open the stack is up; when that closes, be it by `kill -9` of the
command, the stack stops, unless the word `detach` came first. Standard output carries lines for the
starting command until the stack is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from icefall_local import clickstream, fail_points, parts, queue_mapping, scheduler, second_catalog, settings_file
from icefall_local.apache_kafka import ApacheKafka, restarted
from icefall_local.chaos import Chaos, Wanted
from icefall_local.commit_times import CommitTimes
from icefall_local.credentials import Credentials, KeyPair
from icefall_local.event_source_mapping import MappingConfig
from icefall_local.execution_environment import FunctionConfig
from icefall_local.fail_points import FailPoints
from icefall_local.generator import create_topic
from icefall_local.hostility import Hostility
from icefall_local.http1 import Request, Response, Server, serve
from icefall_local.java import Java
from icefall_local.keys_proxy import KeysProxy
from icefall_local.lambda_host import HostedFunction, LambdaHost
from icefall_local.late_commits import LateCommits
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.processes import Part
from icefall_local.queue_mapping import QueueMappingConfig, QueueProgress, SqsQueue
from icefall_local.relay import RelayProxy
from icefall_local.settings_file import Pipeline
from icefall_local.stack import SecondCatalog, Service, Stack
from icefall_local.trigger import TRIGGERS
from icefall_local.workspace import Workspace

READY, FAILED = "READY ", "FAILED "
"""How the last line to the starting command begins; a path or the reason follows."""

QUEUE = "icefall-commits"
REGIONS = {"catalog": "us-east-1", "store": "eu-west-1", "ops": "eu-central-1", "queue": "ap-southeast-2"}
"""One for each part: a function that signs for one part with another's region is found out."""


@dataclass(frozen=True)
class Options:
    """What is to be up."""

    kafka: str = "embedded"
    """Or `apache`, or HOST:PORT of a broker that is there already."""
    catalog: str = "seaweedfs"
    """Or `iceberg`: Apache Iceberg's own, which needs Java, in the place of the object store's."""
    isolation: str = "read_committed"
    """Of the event source mapping's consumers."""
    main_job: bool = True
    """With tables, topic, event source mapping and scheduler; without, the parts and the functions alone."""
    partitions: int = 4
    pollers: int = 2
    batch_size: int = 10_000
    window_s: float = 0.5
    schedule_s: float = 2.0
    commit_interval: str = "2s"
    linger: str = "2s"
    trigger: str = "schedule"
    """What invokes the committer; or `queue`: an event source mapping of the commit queue."""
    committers: int = 1
    """Committers that may run at once: as many schedules, or the mapping's maximum concurrency."""
    kill_writers: bool = False
    kill_committers: bool = False
    duplicates: bool = False
    """With any of these three, messages come twice and batches with other boundaries."""
    chaos_seed: int = 7
    second_catalog: bool = False
    """Also Apache Iceberg's own catalog, beside the other one, for tests that are run on both."""
    hostile: int | None = None
    """With a seed, the network before the parts lies; see `hostility`."""
    fail_points: bool = False
    """Whether functions can have proxies of their own, where they are struck at their requests; see `fail_points`."""
    functions: str = ""
    """A folder with the programs `writer` and `committer`; the built ones without."""

    @property
    def chaos(self) -> Wanted:
        trigger = TRIGGERS[self.trigger]
        pause_s, patience_s = trigger.kill_pause_s, trigger.kill_patience_s
        return Wanted(self.kill_writers, self.kill_committers, self.duplicates, self.chaos_seed, pause_s, patience_s)

    @property
    def rivals(self) -> bool:
        """Whether committers are to be in each other's way. A mapping of the queue has two without being asked."""
        return self.committers > 1 and (self.trigger == "schedule" or self.chaos.any)


class StartFailed(Exception):
    """The stack can't be used; the text says why and where to look."""


class Supervisor:
    """All that is up in one run."""

    def __init__(self, workspace: Workspace, run: Path, options: Options, say: Callable[[str], None]) -> None:
        self.stopping = asyncio.Event()
        self._workspace = workspace
        self._run = run
        self._options = options
        self._say = say
        self._ports = Ports()
        self._parts: list[Part] = []
        self._proxies: list[KeysProxy] = []
        """One before each part, for all functions."""
        self._own_proxies: list[RelayProxy] = []
        """Those of functions that can be struck."""
        self._server: Server | None = None
        self._host = LambdaHost(run / "log")
        self._tasks: list[asyncio.Task[None]] = []
        self._mapping: Part | None = None
        self._queue_mapping: asyncio.Task[None] | None = None
        self._queue_progress = QueueProgress()
        self._apache_kafka: ApacheKafka | None = None
        self._chaos: Chaos | None = None
        self._hostility = Hostility(options.hostile) if options.hostile is not None else None
        lies = self._hostility.between if self._hostility is not None else None
        self._late_commits = LateCommits(options.chaos_seed, lies) if options.rivals else None
        self._commit_times = CommitTimes(self._late_commits.between if self._late_commits is not None else lies)
        self._fail_points = FailPoints(self._host.at_work) if options.fail_points else None
        self._chance = random.Random(0)

    async def start(self) -> Stack:
        """Starts everything; the stack is written to `stack.json` when it is ready."""
        stack = await self._start_parts()
        Path(stack.settings).write_text(
            settings_file.render(stack, Pipeline(commit_interval=self._options.commit_interval, linger=self._options.linger))
        )
        Path(stack.settings).chmod(0o600)
        self._create_functions(stack)
        if self._options.main_job:
            await self._start_main_job(stack)
        stack.write(self._run / "stack.json")
        return stack

    async def stop(self) -> None:
        """Stops everything, in the order in which it depends on each other."""
        for task in self._tasks:
            task.cancel()
        if self._chaos is not None:
            self._chaos.stop()
        if self._mapping is not None:
            await asyncio.to_thread(self._mapping.stop)
        await self._host.stop()
        for proxy in [*self._proxies, *self._own_proxies]:
            proxy.stop()
        if self._server is not None:
            await self._server.close()
        await asyncio.gather(*(asyncio.to_thread(part.stop) for part in self._servers()))

    def _servers(self) -> list[Part]:
        """Of Kafka only the broker that is meant to be up: between its two lives there is none."""
        kafka = self._apache_kafka.part if self._apache_kafka is not None else None
        return [*self._parts, *([kafka] if kafka is not None else [])]

    async def _start_parts(self) -> Stack:
        options, run, keys = self._options, self._run, Credentials.random()
        self._say("starting the object store and the Iceberg catalog (SeaweedFS)")
        lakehouse = parts.start_lakehouse(
            self._workspace, run, self._ports, keys, lends_keys=not self._options.main_job
        )
        self._parts.append(lakehouse.part)
        self._say("starting the queue (SQS)")
        queue_part, queue_port = parts.start_queue_server(self._workspace, run, self._ports)
        self._parts.append(queue_part)
        bootstrap = self._start_kafka()
        second = self._start_second_catalog(lakehouse, keys) if options.second_catalog else None
        is_iceberg = options.catalog == "iceberg"
        catalog_port = self._start_iceberg_catalog(lakehouse, keys) if is_iceberg else lakehouse.catalog_port
        table_bucket = second_catalog.BUCKET if is_iceberg else parts.TABLE_BUCKET
        services = {
            "catalog": await self._service("catalog", catalog_port, keys, signed=not is_iceberg),
            "store": await self._service("store", lakehouse.s3_port, keys),
            "ops": await self._service("ops", lakehouse.s3_port, keys),
            "queue": await self._service("queue", queue_port, keys),
        }
        direct_url = _create_queue(services["queue"], TRIGGERS[options.trigger].visibility_s)
        self._server = await serve(self._answer, self._ports.free())
        return Stack(
            run=str(run),
            supervisor_pid=os.getpid(),
            warehouse=f"s3://{table_bucket}",
            table_bucket=table_bucket,
            ops_bucket=parts.OPS_BUCKET,
            queue_url=direct_url.replace(services["queue"].direct_endpoint, services["queue"].endpoint),
            direct_queue_url=direct_url,
            reader=keys.reader,
            kafka_bootstrap=bootstrap,
            kafka_cluster="local",
            topic=self._topic(bootstrap),
            lambda_endpoint=f"http://{LOOPBACK}:{self._server.port}",
            settings=str(run / "icefall.toml"),
            second_catalog=second,
            signed=not is_iceberg,
            **services,
        )

    def _start_kafka(self) -> str:
        if self._options.kafka == "apache":
            self._say("starting the Kafka broker (Apache Kafka)")
            self._apache_kafka = ApacheKafka(self._workspace, self._run, self._ports)
            self._apache_kafka.start()
            return self._apache_kafka.bootstrap
        if self._options.kafka != "embedded":
            host, _, port = self._options.kafka.rpartition(":")
            if not port.isdigit() or not parts.accepts(host, int(port)):
                raise StartFailed(f"nothing accepts connections at --kafka {self._options.kafka}")
            return self._options.kafka
        self._say("starting the Kafka broker")
        part, port = parts.start_broker(self._workspace, self._run, self._ports)
        self._parts.append(part)
        return f"{LOOPBACK}:{port}"

    def _start_second_catalog(self, lakehouse: parts.Lakehouse, keys: Credentials) -> SecondCatalog:
        self._say("starting the second catalog (Apache Iceberg's)")
        s3_endpoint = f"http://{LOOPBACK}:{lakehouse.s3_port}"
        java = Java.here(self._workspace)
        started, second = second_catalog.start(java, self._run, self._ports, s3_endpoint, keys.second_catalog)
        self._parts.extend(started)
        return second

    def _start_iceberg_catalog(self, lakehouse: parts.Lakehouse, keys: Credentials) -> int:
        self._say("starting Apache Iceberg's own catalog")
        s3_endpoint = f"http://{LOOPBACK}:{lakehouse.s3_port}"
        part, port = second_catalog.start_alone(Java.here(self._workspace), self._run, self._ports, s3_endpoint, keys.second_catalog)
        self._parts.append(part)
        return port

    def _topic(self, bootstrap: str) -> str:
        """Creates the topic. On a broker that isn't ours the usual name may be taken: then one of this run's."""
        for topic in (clickstream.TOPIC, f"{clickstream.TOPIC}-{self._run.name}"):
            if not self._options.main_job or create_topic(bootstrap, topic, self._options.partitions):
                return topic
        raise StartFailed("the broker has topics of both names that this run could use")

    async def _service(self, part: str, port: int, keys: Credentials, *, signed: bool = True) -> Service:
        proxy = self._proxy(part, port)
        self._proxies.append(proxy)
        endpoint = f"http://{LOOPBACK}:{await proxy.start(self._ports.free())}"
        region, key = (REGIONS[part], getattr(keys, part)) if signed else ("", KeyPair("", ""))
        return Service.of(endpoint, f"http://{LOOPBACK}:{port}", region, key)

    def _proxy(self, part: str, port: int) -> KeysProxy:
        """Where nothing is done to requests, and nothing to be known of them, nobody waits for them to be whole."""
        if part == "catalog" and self._options.main_job:
            return RelayProxy(part, port, self._commit_times.between)
        if self._hostility is None:
            return KeysProxy(part, port)
        return RelayProxy(part, port, self._hostility.between)

    async def _proxies_of(self, function: str, points: FailPoints) -> dict[str, str]:
        """Proxies of a function's own before all parts: their endpoints."""
        endpoints = {}
        for shared in self._proxies:
            proxy = RelayProxy(shared.part, shared.target_port, points.between(function))
            self._own_proxies.append(proxy)
            endpoints[shared.part] = f"http://{LOOPBACK}:{await proxy.start(self._ports.free())}"
        return endpoints

    def _create_functions(self, stack: Stack) -> None:
        """Writer and committer, if they are built. Both get the settings' path and no AWS keys at all."""
        environment = {"ICEFALL_SETTINGS": stack.settings}
        options = self._options
        sizes = {
            "writer": {"memory_mib": 1024, "timeout_s": 60.0, "concurrency": 10},
            "committer": {
                "memory_mib": 512,
                "timeout_s": TRIGGERS[options.trigger].committer_timeout_s,
                "concurrency": options.committers,
                "event_age_s": options.schedule_s,
            },
        }
        for name, size in sizes.items():
            bootstrap = self._workspace.function(name, options.functions)
            self._host.create(FunctionConfig(name, bootstrap, environment, **size))

    async def _start_main_job(self, stack: Stack) -> None:
        committer = self._host.function("committer")
        assert committer is not None
        self._say("creating the tables (one run of the committer)")
        outcome = await committer.invoke(scheduler.scheduled_event(committer.config.region))
        if outcome.error:
            text = outcome.payload.decode(errors="replace")
            raise StartFailed(f"the committer could not create the tables: {text}\n  its log: {stack.logs}/committer.log")
        self._say("starting the event source mapping and the committer's trigger")
        self._start_mapping(stack)
        self._start_trigger(stack, committer)
        if (wanted := self._options.chaos).any:
            self._say("starting the chaos")
            victims = {name: function for name in wanted.victims if (function := self._host.function(name)) is not None}
            self._chaos = Chaos(wanted, stack, victims, _sqs(stack.queue))
        if self._late_commits is not None:
            self._late_commits.begin()
        if self._hostility is not None:
            self._say("the network turns hostile")
            self._hostility.begin()

    def _start_trigger(self, stack: Stack, committer: HostedFunction) -> None:
        if self._options.trigger == "queue":
            self._queue_mapping = asyncio.ensure_future(self._map_queue(stack, committer))
            self._tasks.append(self._queue_mapping)
            return
        every, count = self._options.schedule_s, self._options.committers
        for number in range(count):
            self._tasks.append(asyncio.ensure_future(scheduler.run(committer, every, every * number / count)))

    async def _map_queue(self, stack: Stack, committer: HostedFunction) -> None:
        client = _sqs(stack.queue, retries=0)
        found = client.get_queue_attributes(QueueUrl=stack.direct_queue_url, AttributeNames=["QueueArn", "VisibilityTimeout"])
        config = QueueMappingConfig(
            found["Attributes"]["QueueArn"],
            max_concurrency=self._options.committers,
            visibility_s=float(found["Attributes"]["VisibilityTimeout"]),
            function_timeout_s=committer.config.timeout_s,
        )
        queue = SqsQueue(client, stack.direct_queue_url, config.max_concurrency)
        await queue_mapping.run(config, queue, committer.invoke, self._queue_progress)

    def _start_mapping(self, stack: Stack) -> None:
        config = MappingConfig(
            topic=stack.topic,
            function="writer",
            bootstrap_servers=stack.kafka_bootstrap,
            consumer_group=f"icefall-{self._run.name}",
            batch_size=self._options.batch_size,
            window_s=self._options.window_s,
            pollers=min(self._options.pollers, self._options.partitions),
            isolation_level=self._options.isolation,
            chaos_seed=self._options.chaos_seed if self._options.chaos.any else None,
        )
        described = self._run / "mapping.json"
        described.write_text(json.dumps(asdict(config)))
        command = [
            sys.executable, "-m", "icefall_local.mapping_process", described, stack.lambda_endpoint, self._run / "mapping-state.json",
        ]  # fmt: skip
        environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
        self._mapping = Part.start("the event source mapping", command, stack.logs / "mapping.log", environment)

    async def _answer(self, request: Request) -> Response:
        """The Invoke API, and below `/local/` what the run itself wants to know or have done."""
        if not request.path.startswith("/local/"):
            return await self._host.handle(request)
        match (request.method, *request.path.removeprefix("/local/").split("/")):
            case ("GET", "status"):
                return Response.of_json(self._status())
            case ("GET", "commits"):
                return Response.of_json(self._commit_times.answered_ms)
            case ("POST", "chaos", "stop"):
                return Response.of_json({"stopped": self._stop_chaos()})
            case ("PUT", "functions", name):
                wanted = request.json()
                self._host.create(FunctionConfig(**{**wanted, "name": name, "bootstrap": Path(wanted["bootstrap"])}))
                return Response.of_json({"created": name})
            case ("POST", "functions", name, "kill"):
                function = self._host.function(name)
                return Response.of_json({"killed": function is not None and function.kill_one(self._chance)})
            case ("POST", "kafka", "restart"):
                return await restarted(self._apache_kafka, request)
            case ("POST", "functions", name, "proxies") if self._fail_points is not None:
                return Response.of_json(await self._proxies_of(name, self._fail_points))
            case (method, "fail-points", *words) if self._fail_points is not None:
                return fail_points.answered(self._fail_points, method, words, request)
        return Response.of_json({"message": f"there is no {request.method} {request.path}"}, 404)

    def _stop_chaos(self) -> bool:
        """Whether there was any. From here on nothing dies, nothing comes twice or late and nothing lies."""
        if self._chaos is not None:
            self._chaos.stop()
        for network in (self._hostility, self._late_commits):
            if network is not None:
                network.stop()
        return any(one is not None for one in (self._chaos, self._hostility, self._late_commits))

    def _status(self) -> dict[str, Any]:
        mapping = {"alive": self._mapping is not None and self._mapping.process.poll() is None}
        dead = [part.name for part in self._servers() if part.process.poll() is not None]
        return {
            "functions": self._host.status(),
            "keys": {proxy.part: dict(proxy.keys) for proxy in self._proxies},
            "scopes": {proxy.part: dict(proxy.scopes) for proxy in self._proxies},
            "mapping": mapping,
            "queue_mapping": self._queue_mapping_status(),
            "dead_parts": dead,
            "copies": self._chaos.copies if self._chaos is not None else 0,
            "hostile": self._hostility.counts() if self._hostility is not None else None,
        }

    def _queue_mapping_status(self) -> dict[str, Any] | None:
        """None when the committer is started by schedules."""
        if (task := self._queue_mapping) is None:
            return None
        progress = asdict(self._queue_progress)
        if task.done() and not task.cancelled():
            progress["last_error"] = repr(task.exception())
        return {"alive": not task.done(), **progress}


def _sqs(queue: Service, retries: int = 5) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=queue.direct_endpoint,
        region_name=queue.region,
        aws_access_key_id=queue.access_key_id,
        aws_secret_access_key=queue.secret_access_key,
        config=Config(retries={"max_attempts": retries}),
    )


def _create_queue(queue: Service, visibility_s: int) -> str:
    attributes = {"VisibilityTimeout": str(visibility_s), "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "1209600"}
    return str(_sqs(queue).create_queue(QueueName=QUEUE, Attributes=attributes)["QueueUrl"])


class _Lease(asyncio.Protocol):
    """Standard input: its end ends the stack, unless `detach` was said."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._said = b""

    def data_received(self, data: bytes) -> None:
        self._said += data

    def connection_lost(self, exc: Exception | None) -> None:
        if b"detach" not in self._said:
            self._stopping.set()


async def supervise(workspace: Workspace, run: Path, options: Options) -> int:
    """Starts, reports, waits, stops."""
    loop = asyncio.get_running_loop()
    supervisor = Supervisor(workspace, run, options, _tell)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stopping.set)
    await loop.connect_read_pipe(lambda: _Lease(supervisor.stopping), sys.stdin)
    (run / "log").mkdir()
    (run / "supervisor.pid").write_text(str(os.getpid()))
    try:
        starting = asyncio.ensure_future(supervisor.start())
        stopped = asyncio.ensure_future(supervisor.stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            _tell(f"{READY}{run / 'stack.json'}")
            await stopped
        else:
            starting.cancel()
        return 0
    except Exception as problem:
        (run / "log" / "supervisor.txt").write_text(traceback.format_exc())
        _tell(FAILED + str(problem).replace("\n", "\r"))
        return 1
    finally:
        await supervisor.stop()
        (run / "supervisor.pid").unlink(missing_ok=True)


def _tell(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:
        pass  # The command that started us is gone; the lease says what that means.


def main(arguments: Sequence[str]) -> int:
    """`RUN OPTIONS-as-JSON`"""
    options = Options(**json.loads(arguments[1]))
    return asyncio.run(supervise(Workspace.here(), Path(arguments[0]), options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

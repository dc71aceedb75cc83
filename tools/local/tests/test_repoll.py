"""Lost pollers on a real broker: generation after generation, whatever fails, every record is delivered."""

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import Consumer, Producer, TopicPartition

from icefall_local import mapping_process, parts
from icefall_local.event_source_mapping import MappingConfig
from icefall_local.generator import create_topic
from icefall_local.ports import Ports
from icefall_local.workspace import Workspace

TOPIC, PARTITIONS, RECORDS = "lost", 4, 20_000


class Function(BaseHTTPRequestHandler):
    """The Invoke API of a function of which a fifth of the invocations fail; notes what the others got."""

    protocol_version = "HTTP/1.1"
    chance = random.Random(4)
    in_flight: set[int] = set()
    collisions = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        batch = [(one["partition"], one["offset"]) for group in json.loads(body)["records"].values() for one in group]
        partitions = {partition for partition, _ in batch}
        with self.server.lock:
            type(self).collisions += bool(self.in_flight & partitions)
            self.in_flight.update(partitions)
            failed = self.chance.random() < 0.2
        time.sleep(0.01)
        with self.server.lock:
            self.in_flight.difference_update(partitions)
            if not failed:
                self.server.delivered.append(batch)
        self.send_response(200)
        if failed:
            self.send_header("X-Amz-Function-Error", "Unhandled")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def committed(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        return [one.offset for one in consumer.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], timeout=30)]
    finally:
        consumer.close()


def test_every_record_is_delivered_and_every_offset_stored_in_the_end(tmp_path):
    (tmp_path / "log").mkdir()
    broker, port = parts.start_broker(Workspace.here(), tmp_path, Ports())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Function)
    server.daemon_threads, server.lock, server.delivered = True, threading.Lock(), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stop = threading.Event()
    try:
        bootstrap = f"127.0.0.1:{port}"
        assert create_topic(bootstrap, TOPIC, PARTITIONS)
        producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": RECORDS})
        for number in range(RECORDS):
            producer.produce(TOPIC, value=b"x", partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        config = MappingConfig(TOPIC, "f", bootstrap, "g", batch_size=400, window_s=0.05, chaos_seed=2)
        arguments = (config, f"http://127.0.0.1:{server.server_port}", tmp_path / "state.json", stop)
        mapping = threading.Thread(target=mapping_process.run, args=arguments)
        mapping.start()
        wanted, deadline = [RECORDS // PARTITIONS] * PARTITIONS, time.monotonic() + 120
        while committed(bootstrap) != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        assert committed(bootstrap) == wanted
        stop.set()
        mapping.join(30)
        assert not mapping.is_alive()
    finally:
        stop.set()
        server.shutdown()
        broker.stop()
    records = [record for batch in server.delivered for record in batch]
    assert set(records) == {(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)}
    assert len(records) > RECORDS, "losses after a success deliver records a second time"
    assert Function.collisions == 0, "a partition has one batch in flight at the most"
    assert len({frozenset(partition for partition, _ in batch) for batch in server.delivered}) > 3
    progress = json.loads((tmp_path / "state.json").read_text())
    assert sum(one["repolls"] for one in progress) > 3
    assert sum(one["records"] for one in progress) == RECORDS

"""Which brokers the tests run on: the embedded one, and Apache Kafka too when all tests are asked for."""

import os

EVERYTHING = os.environ.get("ICEFALL_TEST_ALL") == "1"
BROKERS = ("embedded", "apache") if EVERYTHING else ("embedded",)

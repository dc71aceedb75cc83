"""What the generator expects, and that each kind of damage to it is seen and named."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icefall_local import sabotage
from icefall_local.clickstream import BAD_KINDS, COLUMNS, HEADER_VARIANTS, TABLE, Clickstream
from icefall_local.expectation import Expectation, ExpectationBuilder, headers_of
from icefall_local.freshness import percentiles
from icefall_local.verify import ROW_COLUMNS, compare_dead_letters, compare_rows

COUNT = 2_000


def produced(bad_permille=50, seed=3):
    records = Clickstream(seed, bad_permille, 3).take(COUNT)
    built = ExpectationBuilder("clickstream", 3)
    built.add(records, list(range(1_000_000, 1_000_000 + COUNT)))
    return records, built.build()


def rows_of(expectation):
    """The table as it should be read back, in another order and with the reader's own types."""
    rows = expectation.rows().select(list(ROW_COLUMNS))
    rows = rows.cast(pa.schema([(f.name, pa.large_string() if f.type == pa.string() else f.type) for f in rows.schema]))
    return rows.take(pa.array(list(reversed(range(rows.num_rows)))))


def letters_of(expectation):
    letters = expectation.dead_letters()
    return pa.table(
        {
            "topic": pa.array(["clickstream"] * letters.num_rows),
            "partition": letters["partition"].cast(pa.int64()),
            "offset": letters["offset"],
            "timestamp": letters["produced_ms"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            "key": letters["key"].cast(pa.large_binary()),
            "value": letters["value"].cast(pa.large_binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in headers_of(one)] for one in letters["headers_variant"].to_pylist()],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "target_table": pa.array([TABLE] * letters.num_rows),
            "error_class": pa.array(["type"] * letters.num_rows),
            "error_text": pa.array(["why"] * letters.num_rows),
        }
    )


def changed(table, number, **values):
    rows = table.to_pylist()
    rows[number].update(values)
    return pa.Table.from_pylist(rows, table.schema)


def without(table, number):
    return pa.concat_tables([table.slice(0, number), table.slice(number + 1)])


def name_of(expectation, **wanted):
    (field, value), = wanted.items()
    record = expectation.records.filter(pc.equal(expectation.records[field], value)).to_pylist()[0]
    return f"clickstream/{record['partition']}/{record['offset']}"


@pytest.fixture(scope="module")
def expectation():
    return produced()[1]


def test_the_same_seed_gives_the_same_records():
    assert [one.value for one in produced()[0]] == [one.value for one in produced()[0]]
    assert produced(seed=4)[0][0].value != produced()[0][0].value


def test_good_records_are_json_of_the_expected_values():
    records, _ = produced(bad_permille=0)
    for record in records:
        document = json.loads(record.value)
        assert document.pop("referrer", None) == record.values.referrer
        assert document == {name: getattr(record.values, name) for name in document}
        assert set(document) == {column.name for column in COLUMNS} - {"referrer"}
    sizes = [len(record.value) for record in records]
    assert 200 < sum(sizes) / len(sizes) < 260
    assert {None if record.key is None else type(record.key) for record in records} == {None, bytes}
    assert {record.headers_variant for record in records} == set(range(len(HEADER_VARIANTS)))


def test_every_bad_kind_is_made_and_none_can_be_read_as_a_row():
    records, expectation = produced()
    assert len(expectation.kinds()) == len(BAD_KINDS)
    for record in (one for one in records if one.bad_kind >= 0):
        assert not reads_as_a_row(record.value), BAD_KINDS[record.bad_kind][0]


def reads_as_a_row(value):
    try:
        document = json.loads(value)
        times = pa.array([document["event_time"]]).cast(pa.timestamp("us", tz="UTC"))
        strings = [document[column.name] for column in COLUMNS if column.type == "string" and column.required]
        referrer = document.get("referrer")
        return (
            type(document["user_id"]) is int
            and -(2**63) <= document["user_id"] < 2**63
            and all(isinstance(text, str) for text in strings)
            and (referrer is None or isinstance(referrer, str))
            and len(times) == 1
        )
    except (TypeError, ValueError, KeyError, RecursionError):
        return False


def test_offsets_count_up_in_each_partition(expectation):
    for partition in range(3):
        own = expectation.records.filter(pc.equal(expectation.records["partition"], partition))
        assert own["offset"].to_pylist() == list(range(own.num_rows))


def test_an_expectation_survives_being_saved(expectation, tmp_path):
    expectation.save(tmp_path / "expected.arrow")
    loaded = Expectation.load(tmp_path / "expected.arrow")
    assert (loaded.topic, loaded.records.equals(expectation.records)) == ("clickstream", True)


def test_what_is_right_is_found_right(expectation):
    assert not compare_rows(expectation, rows_of(expectation)).any
    assert not compare_dead_letters(expectation, letters_of(expectation)).any


def test_a_dropped_row_is_missing(expectation):
    table = rows_of(expectation)
    name = name_of(expectation, event_id=table["event_id"][10].as_py())
    found = compare_rows(expectation, without(table, 10))
    assert (found.missing, found.duplicates, found.altered, found.unexpected) == (1, 0, 0, 0)
    assert found.named == [f"missing: {name}"]


def test_a_record_that_was_produced_twice_is_expected_twice():
    """As when its transaction was aborted and done again, and consumers read uncommitted."""
    records, _ = produced(bad_permille=0)
    built = ExpectationBuilder("clickstream", 3)
    built.add_at(list(range(COUNT)), records, [1_000_000] * COUNT)
    built.add_at([COUNT + 7], records[10:11], [1_000_001])
    expectation = built.build()
    table = rows_of(expectation)
    name = f"clickstream/{records[10].partition}"
    assert not compare_rows(expectation, table).any
    once = without(table, table["event_id"].to_pylist().index(records[10].values.event_id))
    found = compare_rows(expectation, once)
    assert (found.missing, found.duplicates, found.altered, found.unexpected) == (1, 0, 0, 0)
    assert found.named == [f"missing: {name}/{COUNT + 7}"]
    thrice = pa.concat_tables([table, table.filter(pc.equal(table["event_id"], records[10].values.event_id)).slice(0, 1)])
    found = compare_rows(expectation, thrice)
    assert (found.missing, found.duplicates, found.altered, found.unexpected) == (0, 1, 0, 0)
    assert found.named == [f"duplicates: {name}/10 stands 3 times"]


def test_a_doubled_row_is_a_duplicate(expectation):
    table = rows_of(expectation)
    name = name_of(expectation, event_id=table["event_id"][10].as_py())
    found = compare_rows(expectation, pa.concat_tables([table, table.slice(10, 1), table.slice(10, 1)]))
    assert (found.missing, found.duplicates, found.altered) == (0, 2, 0)
    assert found.named == [f"duplicates: {name} stands 3 times"]


@pytest.mark.parametrize(
    "column, value",
    [("page_url", "other"), ("user_id", 5), ("referrer", "x"), ("event_type", ""), ("session_id", "s")],
)
def test_an_altered_value_is_seen_in_every_column(expectation, column, value):
    table = rows_of(expectation)
    name = name_of(expectation, event_id=table["event_id"][10].as_py())
    found = compare_rows(expectation, changed(table, 10, **{column: value}))
    assert (found.missing, found.altered) == (0, 1)
    assert found.named == [f"altered: {name} differs in {column}"]


def test_a_microsecond_is_a_difference(expectation):
    table = rows_of(expectation)
    micros = table["event_time"].cast(pa.int64()).to_pylist()
    micros[10] += 1
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    found = compare_rows(expectation, table.set_column(6, "event_time", times))
    assert found.altered == 1


def test_a_lost_value_differs_from_null_and_the_other_way_round(expectation):
    table = rows_of(expectation)
    referrers = table["referrer"].to_pylist()
    there, absent = next(n for n, v in enumerate(referrers) if v), referrers.index(None)
    assert compare_rows(expectation, changed(table, there, referrer=None)).altered == 1
    assert compare_rows(expectation, changed(table, absent, referrer="")).altered == 1


def test_a_bad_record_that_became_a_row_is_unexpected(expectation):
    bad = expectation.dead_letters().select(list(ROW_COLUMNS)).slice(0, 1)
    table = rows_of(expectation)
    found = compare_rows(expectation, pa.concat_tables([table, bad.cast(table.schema)]))
    assert (found.unexpected, found.missing) == (1, 0)


def test_dead_letters_are_compared_byte_by_byte(expectation):
    letters = letters_of(expectation)
    first = letters.slice(0, 1).to_pylist()[0]
    name = f"clickstream/{first['partition']}/{first['offset']}"
    assert compare_dead_letters(expectation, without(letters, 0)).named == [f"missing: {name}"]
    assert compare_dead_letters(expectation, pa.concat_tables([letters, letters.slice(0, 1)])).duplicates == 1
    for change in ({"value": b"other"}, {"value": None}, {"key": b"other"}, {"target_table": "x.y"}, {"error_text": ""},
                   {"headers": [{"key": "other", "value": b""}]}):
        assert compare_dead_letters(expectation, changed(letters, 0, **change)).altered == 1, change


def test_a_tombstone_and_an_empty_value_are_told_apart(expectation):
    letters = letters_of(expectation)
    values = letters["value"].to_pylist()
    assert compare_dead_letters(expectation, changed(letters, values.index(None), value=b"")).altered == 1
    assert compare_dead_letters(expectation, changed(letters, values.index(b""), value=None)).altered == 1


def test_sabotage_spoils_a_record_that_it_can_name(expectation):
    victim = sabotage.choose(expectation, "alter")
    assert str(victim) == name_of(expectation, event_id=victim.event_id)
    row = expectation.rows().select(list(ROW_COLUMNS)).filter(pc.equal(expectation.rows()["event_id"], victim.event_id))
    assert sabotage.spoiled(row)["page_url"].to_pylist() != row["page_url"].to_pylist()
    lost = sabotage.choose(expectation, "lose-dead-letter")
    assert str(lost) == name_of(expectation, event_id=lost.event_id)
    with pytest.raises(ValueError, match="nothing was produced"):
        sabotage.choose(produced(bad_permille=0)[1], "lose-dead-letter")


def test_freshness_is_exact(expectation):
    rows = expectation.rows().select(["event_id", "produced_ms"]).to_pylist()
    ages = [100] * (len(rows) - 30) + [5_000] * 30
    committed = pa.table(
        {
            "event_id": [row["event_id"] for row in rows],
            "committed_ms": [row["produced_ms"] + age for row, age in zip(rows, ages, strict=True)],
        }
    )
    found = percentiles(committed, expectation)
    assert (found.p50_ms, found.p99_ms) == (100, 5_000)

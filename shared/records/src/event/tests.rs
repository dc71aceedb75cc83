//! Events as the platform and other producers of such events send them.

use base64_simd::STANDARD;
use icefall_manifest::Encoding;
use proptest::prelude::*;

use super::*;
use crate::fingerprint::{self, Time};
use crate::record::{FaultPart, Form, Payload};

const MSK: &str = r#"{"eventSource":"aws:kafka","eventSourceArn":"arn:aws:kafka:us-east-1:123456789012:cluster/c/1",
  "bootstrapServers":"b-1:9092,b-2:9092","records":{"my-topic-0":[
  {"topic":"my-topic","partition":0,"offset":15,"timestamp":1545084650987,"timestampType":"CREATE_TIME",
   "key":"a2V5","value":"SGVsbG8=","headers":[{"h":[104,-1]}]}]}}"#;

fn record_json(fields: &str) -> String {
    format!(r#"{{"records":{{"t-0":[{{"topic":"t","partition":0,"offset":7{fields}}}]}}}}"#)
}

/// What is asserted of the one record of an event.
fn with_record<T>(event: &str, check: impl FnOnce(&Record<'_>) -> T) -> T {
    let mut buffer = DecodeBuffer::default();
    let event = KafkaEvent::parse(event.as_bytes(), &mut buffer).expect("an event");
    assert_eq!(event.len(), 1);
    check(&event.partitions[0].records[0])
}

fn fault_of(fields: &str) -> Option<FaultPart> {
    with_record(&record_json(fields), |record| record.fault.map(|fault| fault.part))
}

fn bytes(bytes: &[u8]) -> Payload<'_> {
    Payload { form: Form::Bytes, bytes }
}

#[test]
fn an_msk_event_is_read_whole() {
    let mut buffer = DecodeBuffer::default();
    let event = KafkaEvent::parse(MSK.as_bytes(), &mut buffer).expect("an event");
    assert_eq!(event.source.as_deref(), Some("aws:kafka"));
    assert_eq!(event.bootstrap_servers.as_deref(), Some("b-1:9092,b-2:9092"));
    let partition = &event.partitions[0];
    assert_eq!((partition.topic.as_str(), partition.partition.number()), ("my-topic", 0));
    let record = &partition.records[0];
    assert_eq!((record.offset.position(), record.timestamp_ms), (15, Some(1_545_084_650_987)));
    assert_eq!((record.key, record.value), (Some(bytes(b"key")), Some(bytes(b"Hello"))));
    assert_eq!(record.headers.to_vec()[0].value.as_deref(), Some(&[104, 255][..]));
    assert_eq!(record.encoding, Encoding::Raw);
    assert_eq!(record.timestamp_type.as_deref(), Some("CREATE_TIME"));
    assert!(record.text.starts_with("{\"topic\"") && record.text.ends_with("]}"));
    let expected =
        fingerprint::compute(Time::Millis(1_545_084_650_987), Some(bytes(b"key")), Some(bytes(b"Hello")));
    assert_eq!(record.fingerprint, expected);
}

#[test]
fn any_event_source_and_unknown_fields_are_taken() {
    let event = r#"{"eventSource":"SelfManagedKafka","bootstrapServers":"k:9092","new":{"a":[1,"x"]},"records":{"t-0":[
        {"topic":"t","partition":0,"offset":0,"leaderEpoch":3,"nested":[{"a":null}]}]}}"#;
    with_record(event, |record| assert_eq!(record.fault, None));
}

#[test]
fn absent_and_null_are_none_and_empty_is_empty() {
    with_record(&record_json(""), |record| assert_eq!((record.key, record.value), (None, None)));
    let null = record_json(r#","key":null,"value":null,"headers":null"#);
    with_record(&null, |record| assert_eq!((record.key, record.value, record.fault), (None, None, None)));
    let empty = record_json(r#","key":"","value":"""#);
    with_record(&empty, |record| {
        assert_eq!((record.key, record.value), (Some(bytes(b"")), Some(bytes(b""))));
    });
}

#[test]
fn no_timestamp_has_three_spellings_and_one_fingerprint() {
    let of = |fields: &str| with_record(&record_json(fields), |r| (r.timestamp_ms, r.fingerprint, r.fault));
    assert_eq!(of(r#","timestamp":-1"#), of(""));
    assert_eq!(of(r#","timestamp":null"#), of(""));
    assert_eq!(of(r#","timestamp":1545084650987.0"#), of(r#","timestamp":1545084650987"#));
    assert_eq!(of(r#","timestamp":1545084650987"#).0, Some(1_545_084_650_987));
}

#[test]
fn an_unreadable_part_is_the_records_own_fault() {
    assert_eq!(fault_of(r#","timestamp":1545084650987.5"#), Some(FaultPart::Timestamp));
    assert_eq!(fault_of(r#","timestamp":"soon""#), Some(FaultPart::Timestamp));
    assert_eq!(fault_of(r#","key":"@@""#), Some(FaultPart::Key));
    assert_eq!(fault_of(r#","value":"YQ""#), Some(FaultPart::Value), "no padding");
    assert_eq!(fault_of(r#","value":"YR==""#), Some(FaultPart::Value), "bits that are no byte");
    assert_eq!(fault_of(r#","value":"Y Q=""#), Some(FaultPart::Value), "white space");
    assert_eq!(fault_of(r#","value":"Y-_a""#), Some(FaultPart::Value), "the other alphabet");
    assert_eq!(fault_of(r#","headers":5"#), Some(FaultPart::Headers));
    assert_eq!(fault_of(r#","headers":[{"a":[256]}]"#), Some(FaultPart::Headers));
}

#[test]
fn unreadable_payloads_keep_their_text_under_their_own_tag() {
    with_record(&record_json(r#","value":"@\"é""#), |record| {
        assert_eq!(record.value, Some(Payload { form: Form::Unreadable, bytes: r#"@\"é"#.as_bytes() }));
        assert_eq!(record.encoding, Encoding::Unreadable);
        assert_eq!(record.fingerprint, fingerprint::compute(Time::None, None, record.value));
        assert_eq!(record.text, r#"{"topic":"t","partition":0,"offset":7,"value":"@\"é"}"#);
    });
}

#[test]
fn escaped_base64_is_base64() {
    with_record(&record_json(r#","value":"\/\/8=""#), |record| {
        assert_eq!((record.value, record.fault), (Some(bytes(&[255, 255])), None));
    });
}

#[test]
fn a_value_that_is_json_is_kept_as_its_text() {
    let event =
        record_json(r#","value":{"a": [1, "\n"]},"valueSchemaMetadata":{"dataFormat":"AVRO","schemaId":7}"#);
    with_record(&event, |record| {
        assert_eq!(record.value, Some(Payload { form: Form::Json, bytes: br#"{"a": [1, "\n"]}"# }));
        assert_eq!(record.encoding, Encoding::RegistryJson);
        let schema = record.value_schema.as_ref().expect("metadata");
        assert_eq!((schema.data_format.as_deref(), schema.schema_id.as_deref()), (Some("AVRO"), Some("7")));
    });
}

#[test]
fn the_record_names_its_partition_and_not_the_maps_key() {
    let event = r#"{"records":{"a-b-1":[{"topic":"a","partition":1,"offset":5},{"topic":"a-b","partition":1,"offset":6}],
        "x":[{"topic":"a","partition":1,"offset":7}],"none-0":[],"a-2":[{"topic":"a","partition":2,"offset":1}]}}"#;
    let mut buffer = DecodeBuffer::default();
    let event = KafkaEvent::parse(event.as_bytes(), &mut buffer).expect("an event");
    let found: Vec<_> = event
        .partitions
        .iter()
        .map(|partition| {
            let offsets = partition.records.iter().map(|record| record.offset.position()).collect();
            (partition.topic.as_str(), partition.partition.number(), offsets)
        })
        .collect();
    assert_eq!(found, [("a", 1, vec![5, 7]), ("a-b", 1, vec![6]), ("a", 2, vec![1_i64])]);
}

#[test]
fn an_event_without_places_is_an_error_that_says_which_record() {
    let parse = |text: &str| {
        let mut buffer = DecodeBuffer::default();
        KafkaEvent::parse(text.as_bytes(), &mut buffer)
            .map(|event| event.len())
            .map_err(|error| error.to_string())
    };
    let error = parse(r#"{"records":{"t-0":[{"topic":"t","partition":0}]}}"#).expect_err("no offset");
    assert_eq!(error, "record 0 of the event: offset is missing or not readable: nothing");
    for fields in [
        r#""topic":"t","partition":-1,"offset":0"#,
        r#""topic":"a b","partition":0,"offset":0"#,
        r#""topic":"t","partition":"0","offset":0"#,
        r#""topic":"t","partition":0,"offset":1.5"#,
        r#""topic":"t","topic":"u","partition":0,"offset":0"#,
    ] {
        assert!(parse(&format!(r#"{{"records":{{"t-0":[{{{fields}}}]}}}}"#)).is_err(), "{fields}");
    }
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"records":[]}"#,
        r#"{"records":{"a":[5]}}"#,
        r#"{"records":{}} x"#,
        &MSK[..200],
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(parse(r#"{"records":{}}"#), Ok(0));
}

#[test]
fn what_producers_send_does_not_slow_the_reading_down() {
    for headers in [
        r#"[{"k\u00e4lla":[1]}]"#,
        r#"[{"a\"b":[]},{"c\\":null}]"#,
        r#"[{"käse":[-1]}, {"x" : [2]}]"#,
        "null",
    ] {
        let event = format!(
            r#"{{"records":{{"t-0":[{{"topic":"t","partition":0,"offset":0,"headers":{headers},
                "valueSchemaMetadata":{{"dataFormat":"JSON\"","schemaId":"\u0031"}}}}]}}}}"#
        );
        let mut records = Vec::new();
        let fast = scan::event(&event, |record| {
            records.push(*record);
            Some(())
        });
        assert_eq!((fast.expect(&event), records), envelope::read(&event).expect("an event"));
    }
}

#[test]
fn a_place_that_is_named_twice_is_an_error_in_any_order() {
    let parse = |offsets: &[i64]| {
        let records: Vec<_> = offsets
            .iter()
            .map(|offset| format!(r#"{{"topic":"t","partition":3,"offset":{offset}}}"#))
            .collect();
        let event = format!(r#"{{"records":{{"t-3":[{}]}}}}"#, records.join(","));
        let mut buffer = DecodeBuffer::default();
        KafkaEvent::parse(event.as_bytes(), &mut buffer)
            .map(|event| event.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(parse(&[5, 3, 4]), Ok(3), "offsets may stand in any order");
    for offsets in [&[5, 5][..], &[5, 6, 5], &[7, 5, 6, 5]] {
        let error = parse(offsets).expect_err("an offset is named twice");
        assert_eq!(error, "the event holds partition 3 offset 5 of topic t twice");
    }
}

/// JSON values as text, white space and odd shapes among them.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,17})",
        "[0-9.eE+-]{1,6}",
        r#""[a-zA-Z0-9+/=]{0,12}""#,
        r#""([a-z"]|\\n|\\"|\\u00e9|\\){0,6}""#,
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(", "))),
            prop::collection::vec((r#""[a-c\\]{0,2}""#, inner), 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(name, value)| format!("{name} : {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn record_text() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "key",
        "value",
        "headers",
        "keySchemaMetadata",
        "valueSchemaMetadata",
        "other",
        "\\u0074opic",
    ]);
    let members = prop::collection::vec((name, json_text()), 0..8);
    members.prop_map(|members| {
        let members: Vec<_> =
            members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(",\n"))
    })
}

fn event_text() -> impl Strategy<Value = String> {
    (prop::collection::vec(record_text(), 0..4), json_text()).prop_map(|(records, other)| {
        format!(r#"{{"eventSource":{other}, "records":{{"t-0":[{}]}},"x":{other}}}"#, records.join(","))
    })
}

proptest! {
    #[test]
    fn where_the_fast_reader_does_not_give_up_it_finds_what_the_complete_one_finds(text in event_text()) {
        let mut records = Vec::new();
        let fast = scan::event(&text, |record| {
            records.push(*record);
            Some(())
        });
        if let (Some(fast), Ok(complete)) = (fast, envelope::read(&text)) {
            prop_assert_eq!((fast, records), complete);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in event_text()) {
        let mut buffer = DecodeBuffer::default();
        let _ = KafkaEvent::parse(&bytes, &mut buffer);
        let mut buffer = DecodeBuffer::default();
        let _ = KafkaEvent::parse(text.as_bytes(), &mut buffer);
    }

    #[test]
    fn an_event_that_was_damaged_on_its_way_is_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = MSK.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut buffer = DecodeBuffer::default();
        let records = KafkaEvent::parse(&bytes, &mut buffer).map(|event| event.len());
        prop_assert!(records.is_err() || records.is_ok_and(|records| records <= 1));
        let mut buffer = DecodeBuffer::default();
        let cut = KafkaEvent::parse(&MSK.as_bytes()[..end.index(MSK.len())], &mut buffer);
        prop_assert!(cut.is_err(), "part of an event is none");
    }

    #[test]
    fn payloads_come_back_as_they_were_and_hash_as_documented(
        records in prop::collection::vec((any::<i64>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 0..3_i32), 0..20)
    ) {
        let quote = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or("null".to_owned(), |b| format!("\"{}\"", STANDARD.encode_to_string(b)));
        let texts: Vec<_> = records.iter().enumerate().map(|(offset, (time, key, value, partition))| format!(
            r#"{{"topic":"t","partition":{partition},"offset":{offset},"timestamp":{time},"key":{},"value":{}}}"#, quote(key), quote(value))).collect();
        let text = format!(r#"{{"records":{{"t":[{}]}}}}"#, texts.join(","));
        prop_assert!(scan::event(&text, |_| Some(())).is_some());
        let mut buffer = DecodeBuffer::default();
        let event = KafkaEvent::parse(text.as_bytes(), &mut buffer).expect("an event");
        prop_assert_eq!(event.len(), records.len());
        for partition in &event.partitions {
            for record in &partition.records {
                let (time, key, value, number) = &records[usize::try_from(record.offset.position()).expect("small")];
                prop_assert_eq!(*number, partition.partition.number());
                prop_assert_eq!(record.key.map(|p| p.bytes), key.as_deref());
                prop_assert_eq!(record.value.map(|p| p.bytes), value.as_deref());
                let time = if *time == -1 { Time::None } else { Time::Millis(*time) };
                prop_assert_eq!(record.fingerprint, fingerprint::compute(time, record.key, record.value));
            }
        }
    }
}

//! Whether a record stands where it must, as what it must, with what it must hold.

use std::collections::BTreeMap;

use crate::account::Account;
use crate::readers::{Letter, Row};
use crate::record::{Fate, Record};
use crate::world::{Table, World};

/// After a change of a table a writer may go on with what it loaded before for a minute.
pub(crate) const CACHED_MS: u64 = 61_000;

/// Judges every record by the account.
pub(crate) fn judge(world: &World, account: &Account) -> Result<(), String> {
    one_at_a_place(world, account)?;
    for record in &world.kafka.records {
        let Some((index, table)) = table_of(world, record) else { continue };
        let judgement = Judgement { world, account, record, table, index };
        judgement.run().map_err(|fault| format!("{fault}\n  record {record:?}\n  table {table:?}"))?;
    }
    Ok(())
}

/// Two records stand at one offset only where an operator has said so: one more for each time.
fn one_at_a_place(world: &World, account: &Account) -> Result<(), String> {
    let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in &world.kafka.records {
        let stands = account.rows.contains_key(&record.no) || account.letters.contains_key(&record.no);
        if !stands || table_of(world, record).is_none_or(|(_, table)| table.drops > 0) {
            continue;
        }
        let place = (record.topic, record.partition, record.offset);
        let standing = places.entry(place).or_default();
        standing.push(record.no);
        let topic = world.kafka.topics.get(record.topic).map_or("", |topic| topic.name);
        let beside = table_of(world, record).and_then(|(_, table)| table.beside.get(topic)).copied();
        if standing.len() > 1 + beside.unwrap_or_default() {
            return Err(format!("UNDECIDED records {standing:?} all stand at {place:?}"));
        }
    }
    Ok(())
}

fn table_of<'a>(world: &'a World, record: &Record) -> Option<(usize, &'a Table)> {
    let index = world.kafka.topics.get(record.topic)?.table;
    Some((index, world.tables.get(index)?))
}

struct Judgement<'a> {
    world: &'a World,
    account: &'a Account,
    record: &'a Record,
    table: &'a Table,
    index: usize,
}

impl Judgement<'_> {
    fn run(&self) -> Result<(), String> {
        let no = self.record.no;
        if !self.record.acknowledged && self.is_in_kafka() {
            return Err(format!("LOST record {no}: passed over by Kafka's consumer"));
        }
        let row = self.account.rows.get(&no);
        let letters = self.account.letters.get(&no).map(Vec::as_slice).unwrap_or_default();
        if row.is_some() && self.table.rolled_back.contains(&no) {
            return Err(format!("DOUBLED record {no}: its rolled-back row is there again"));
        }
        // A dropped table's records may come anew; its dead letters stay in theirs.
        if letters.len() > 1 + self.table.drops {
            return Err(format!("DOUBLED record {no}: {} dead letters", letters.len()));
        }
        let replayed = self.account.replayed.contains(&no);
        if row.is_some() && !letters.is_empty() && self.table.drops == 0 && !replayed {
            return Err(format!("DOUBLED record {no}: a row and a dead letter"));
        }
        if let Some((index, row)) = row {
            self.is_row(*index, row)?;
        }
        letters.iter().try_for_each(|letter| self.is_letter(letter))?;
        let stands_as_row = replayed && self.table.drops == 0 && !self.table.rewound.contains(&no);
        if row.is_none() && stands_as_row && self.must_stand() {
            return Err(format!("LOST record {no}: replayed, and still no row"));
        }
        if row.is_none() && letters.is_empty() && self.must_stand() {
            return Err(format!("LOST record {no}: acknowledged, and nowhere"));
        }
        Ok(())
    }

    /// Whether its topic still holds it.
    fn is_in_kafka(&self) -> bool {
        let topic = self.world.kafka.topics.get(self.record.topic);
        let logs = topic.iter().flat_map(|topic| &topic.partitions);
        logs.into_iter().any(|log| log.records.binary_search(&self.record.no).is_ok())
    }

    /// Whether a record that is neither row nor dead letter is missed.
    fn must_stand(&self) -> bool {
        let no = &self.record.no;
        let skipped = self.record.fate == Fate::Tombstone && self.may_be_skipped();
        let elsewhere = self.account.queued.contains(no) || self.account.quarantined.contains(no);
        let gone = self.table.rolled_back.contains(no) || self.table.excused.contains_key(no);
        self.record.acknowledged && !skipped && !elsewhere && !gone
    }

    fn is_row(&self, index: usize, row: &Row) -> Result<(), String> {
        let Record { no, partition, offset, values, fate, .. } = self.record;
        let altered = |what: &str| Err(format!("ALTERED record {no}: {what}: {row:?}"));
        if self.record.attempted.is_none() {
            return altered("no writer was ever given it");
        }
        if index != self.index {
            return altered("its row is in another table");
        }
        if (row.partition, row.offset) != (i64::from(*partition), *offset) {
            return altered("its row has another place");
        }
        let right = match fate {
            Fate::Row => true,
            Fate::RowOnceWide => self.table.ever_widened,
            Fate::Letter(_) | Fate::Tombstone => false,
        };
        if !right {
            return altered("it must not be a row");
        }
        if (row.values.n, &row.values.s, row.values.q) != (values.n, &values.s, values.q) {
            return altered("its row holds other values");
        }
        // A field without a column is left out; one that has had a column for long is not.
        let has_column = self.table.grown_ms.is_some_and(|grown| self.record.produced_ms > grown + CACHED_MS);
        let left_out = row.values.extra.is_none() && !has_column;
        if row.values.extra != values.extra && !left_out {
            return altered("its row holds another extra");
        }
        Ok(())
    }

    fn is_letter(&self, letter: &Letter) -> Result<(), String> {
        let Record { no, partition, offset, key, value, fate, .. } = self.record;
        let altered = |what: &str| Err(format!("ALTERED record {no}: {what}: {letter:?}"));
        let right = match fate {
            Fate::Row => false,
            Fate::Letter(class) => letter.class == *class,
            Fate::RowOnceWide => letter.class == "out-of-range" && !self.is_wide_for_long(),
            Fate::Tombstone => letter.class == "tombstone" && self.may_be_kept(),
        };
        if !right {
            return altered("it must not be this dead letter");
        }
        let topic = self.world.kafka.topics.get(self.record.topic).map_or("", |topic| topic.name);
        if (letter.topic.as_str(), letter.partition, letter.offset) != (topic, i64::from(*partition), *offset)
        {
            return altered("its dead letter has another place");
        }
        if letter.target != self.table.name {
            return altered("its dead letter names another table");
        }
        if (&letter.key, &letter.value) != (key, value) {
            return altered("its dead letter holds other bytes");
        }
        let headers: Vec<_> =
            self.record.header.iter().map(|bytes| ("h".to_owned(), Some(bytes.clone()))).collect();
        if letter.headers != headers {
            return altered("its dead letter holds other headers");
        }
        Ok(())
    }

    fn is_wide_for_long(&self) -> bool {
        let widened = self.table.widened_ms;
        self.table.drops == 0 && widened.is_some_and(|widened| self.record.produced_ms > widened + CACHED_MS)
    }

    fn is_route_with_a_choice(&self) -> bool {
        self.table.name == "lake.orders"
    }

    fn may_be_skipped(&self) -> bool {
        self.is_route_with_a_choice() && self.world.settings.ever_skipped
    }

    fn may_be_kept(&self) -> bool {
        !self.is_route_with_a_choice() || self.world.settings.ever_kept
    }
}

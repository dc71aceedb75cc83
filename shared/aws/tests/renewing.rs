//! When what is lent is renewed, and what happens when its issuer fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use icefall_aws::{Issuer, Lent, Renewing};
use icefall_clock::{Clock, Timestamp};
use icefall_testkit::FakeClock;

const NEVER: u64 = 0;

/// Lends its count of questions, for a quarter of an hour unless said otherwise.
#[derive(Debug)]
struct Counter {
    clock: Arc<FakeClock>,
    asked: AtomicU64,
    fails_from: AtomicU64,
    life: Option<Duration>,
}

#[derive(Debug)]
struct Asked(Arc<Counter>);

#[async_trait]
impl Issuer for Asked {
    type Value = u64;
    type Error = io::Error;

    async fn issue(&self) -> Result<Lent<u64>, io::Error> {
        let number = self.0.asked.fetch_add(1, Ordering::SeqCst) + 1;
        // Others come in the meantime.
        tokio::task::yield_now().await;
        let fails_from = self.0.fails_from.load(Ordering::SeqCst);
        if fails_from != NEVER && number >= fails_from {
            return Err(io::Error::other("the issuer is away"));
        }
        Ok(Lent { value: number, expires: self.0.life.map(|life| self.0.clock.now().plus(life)) })
    }
}

struct Bench {
    clock: Arc<FakeClock>,
    counter: Arc<Counter>,
    loan: Renewing<Asked>,
}

impl Bench {
    fn new(life: Option<Duration>) -> Self {
        let clock = Arc::new(FakeClock::default());
        let (asked, fails_from) = (AtomicU64::new(0), AtomicU64::new(NEVER));
        let counter = Arc::new(Counter { clock: Arc::clone(&clock), asked, fails_from, life });
        let loan = Renewing::new(Asked(Arc::clone(&counter)), Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, counter, loan }
    }

    async fn at(&self, minutes: u64) -> Result<u64, io::Error> {
        let start = Timestamp::from_unix_ms(FakeClock::default().now().unix_ms());
        let time = start.plus(Duration::from_mins(minutes));
        self.clock.advance(time.since(self.clock.now()));
        Ok(self.loan.current().await?.0)
    }

    fn asked(&self) -> u64 {
        self.counter.asked.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn it_is_renewed_some_minutes_ahead() {
    let bench = Bench::new(Some(Duration::from_mins(15)));
    for (minute, expected) in [(0, 1), (9, 1), (10, 2), (19, 2), (20, 3)] {
        assert_eq!(bench.at(minute).await.expect("lent"), expected, "at minute {minute}");
    }
    let hour = Bench::new(Some(Duration::from_hours(1)));
    for (minute, expected) in [(0, 1), (54, 1), (55, 2), (109, 2)] {
        assert_eq!(hour.at(minute).await.expect("lent"), expected, "at minute {minute}");
    }
}

#[tokio::test]
async fn what_names_no_end_is_looked_for_again_now_and_then() {
    let bench = Bench::new(None);
    for (minute, expected) in [(0, 1), (14, 1), (15, 2)] {
        assert_eq!(bench.at(minute).await.expect("lent"), expected, "at minute {minute}");
    }
}

#[tokio::test]
async fn the_old_one_is_used_while_it_is_good_and_the_issuer_is_away() {
    let bench = Bench::new(Some(Duration::from_mins(15)));
    assert_eq!(bench.at(0).await.expect("lent"), 1);
    bench.counter.fails_from.store(2, Ordering::SeqCst);
    assert_eq!(bench.at(12).await.expect("still good"), 1);
    assert_eq!(bench.loan.current().await.expect("still good").0, 1);
    assert_eq!(bench.asked(), 2, "the issuer is left alone for a while");
    assert_eq!(bench.at(13).await.expect("still good"), 1);
    assert_eq!(bench.asked(), 3);
    let gone = bench.at(15).await.expect_err("it has ended");
    assert_eq!(gone.to_string(), "the issuer is away");
    bench.counter.fails_from.store(NEVER, Ordering::SeqCst);
    assert_eq!(bench.loan.current().await.expect("lent again").0, 5);
}

#[tokio::test]
async fn one_asks_and_all_get_it() {
    let bench = Bench::new(Some(Duration::from_mins(15)));
    let (first, second, third) =
        tokio::join!(bench.loan.current(), bench.loan.current(), bench.loan.current());
    assert_eq!([first.expect("lent").0, second.expect("lent").0, third.expect("lent").0], [1, 1, 1]);
    bench.clock.advance(Duration::from_mins(12));
    let (first, second) = tokio::join!(bench.loan.current(), bench.loan.current());
    assert_eq!([first.expect("new").0, second.expect("the old one meanwhile").0], [2, 1]);
}

#[tokio::test]
async fn what_is_refused_is_renewed_once_and_not_at_once_again() {
    let bench = Bench::new(Some(Duration::from_mins(15)));
    assert_eq!(bench.at(0).await.expect("lent"), 1);
    let (_, refused) = bench.loan.current().await.expect("lent");
    assert!(!bench.loan.renew(refused).await, "it is too fresh for a newer one to help");
    bench.clock.advance(Duration::from_mins(1));
    assert!(bench.loan.renew(refused).await);
    assert!(bench.loan.renew(refused).await, "somebody else renewed it already");
    assert_eq!((bench.loan.current().await.expect("lent").0, bench.asked()), (2, 2));
    bench.counter.fails_from.store(3, Ordering::SeqCst);
    bench.clock.advance(Duration::from_mins(1));
    let (_, refused) = bench.loan.current().await.expect("lent");
    assert!(!bench.loan.renew(refused).await);
    assert_eq!(bench.loan.current().await.expect("the old one").0, 2);
}

#[tokio::test]
async fn what_is_offered_takes_the_place_of_asking() {
    let bench = Bench::new(Some(Duration::from_mins(15)));
    let offer = |value, minutes| {
        let expires = Some(bench.clock.now().plus(Duration::from_mins(minutes)));
        bench.loan.offer(Lent { value, expires });
    };
    offer(100, 15);
    assert_eq!(bench.loan.current().await.expect("offered").0, 100);
    bench.clock.advance(Duration::from_mins(9));
    offer(101, 15);
    bench.clock.advance(Duration::from_mins(9));
    assert_eq!((bench.loan.current().await.expect("offered").0, bench.asked()), (101, 0));
}

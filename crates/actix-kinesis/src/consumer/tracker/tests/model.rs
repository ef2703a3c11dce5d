//! Random histories, followed by the tracker and by a model that keeps all there ever was.

use proptest::prelude::*;

use super::*;

type Key = Option<&'static str>;

#[derive(Debug, Clone)]
enum Step {
    /// Payload lengths and keys; none stands for nothing to deliver.
    AddPage(Vec<Option<(usize, Key)>>),
    Deliver(usize),
    CatchUp(usize),
    /// An answer to some delivery, whichever it was and however often it has been answered.
    Processed(prop::sample::Index),
    Failed(prop::sample::Index),
    /// Answers to an event that was never delivered under this attempt.
    Foreign {
        id: u64,
        attempt: u32,
        is_success: bool,
    },
    RecallAll,
    GiveUpTolerated,
    GiveUpAll,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop::sample::select(vec![None, Some("a"), Some("b"), Some("c"), Some("d")]);
    let payload = prop_oneof![3 => (0usize..50, key).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        2 => prop::collection::vec(payload, 0..12).prop_map(Step::AddPage),
        6 => (1usize..6).prop_map(Step::Deliver),
        1 => (1usize..6).prop_map(Step::CatchUp),
        6 => any::<prop::sample::Index>().prop_map(Step::Processed),
        6 => any::<prop::sample::Index>().prop_map(Step::Failed),
        1 => (0u64..60, 0u32..4, any::<bool>())
            .prop_map(|(id, attempt, is_success)| Step::Foreign { id, attempt, is_success }),
        1 => Just(Step::RecallAll),
        1 => Just(Step::GiveUpTolerated),
        1 => Just(Step::GiveUpAll),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Due,
    InFlight,
    Exhausted,
    Settled,
}

struct Event {
    position: Position,
    page: usize,
    payload: usize,
    key: Key,
    is_nothing: bool,
    attempts: u32,
    failures: u32,
    standing: Standing,
}

#[derive(Default)]
struct Model {
    retries: u32,
    tolerance_percentage: f64,
    concurrency: Concurrency,
    events: Vec<Event>,
    /// How many events of each page were given up within the tolerance.
    forgiven: Vec<usize>,
}

impl Model {
    fn add_page(&mut self, payloads: &[Option<(usize, Key)>]) -> Vec<PageItem> {
        let page = self.forgiven.len();
        self.forgiven.push(0);
        let mut items = Vec::new();
        for payload in payloads {
            // Three user records to a Kinesis record.
            let index = self.events.len();
            let position = at(index as u128 / 3, index as i64 % 3);
            items.push(match payload {
                Some((payload, key)) => event_of(*key, position.clone(), *payload),
                None => PageItem::Nothing(position.clone()),
            });
            self.events.push(Event {
                position,
                page,
                payload: payload.map_or(0, |(payload, _)| payload),
                key: payload.and_then(|(_, key)| key),
                is_nothing: payload.is_none(),
                attempts: 0,
                failures: 0,
                standing: if payload.is_none() { Standing::Settled } else { Standing::Due },
            });
        }
        items
    }

    /// The id of the event to deliver next, and its attempt.
    fn deliver(&mut self) -> Option<(usize, u32)> {
        let is_due = |id: &usize| self.events[*id].standing == Standing::Due;
        let next = (0..self.events.len())
            .find(|id| is_due(id) && self.events[*id].attempts > 0)
            .or_else(|| (0..self.events.len()).find(|id| is_due(id) && !self.waits(*id)))?;
        Some(self.begin(next))
    }

    /// The same for what was left behind.
    fn catch_up(&mut self) -> Option<(usize, u32)> {
        if self.concurrency == Concurrency::None {
            return None;
        }
        let newest = self.events.iter().rposition(|event| event.attempts > 0)?;
        let is_due = |id: &usize| self.events[*id].standing == Standing::Due;
        let next = (0..newest)
            .find(|id| is_due(id) && self.events[*id].attempts > 0)
            .or_else(|| (0..newest).find(|id| is_due(id) && !self.waits(*id)))?;
        Some(self.begin(next))
    }

    fn begin(&mut self, next: usize) -> (usize, u32) {
        let event = &mut self.events[next];
        event.standing = Standing::InFlight;
        event.attempts += 1;
        (next, event.attempts)
    }

    fn follow_each_other(&self, one: &Event, other: &Event) -> bool {
        match self.concurrency {
            Concurrency::None => false,
            Concurrency::Shard => true,
            Concurrency::Key(_) => one.key == other.key,
        }
    }

    /// Whether an event before it is open that it must follow.
    fn waits(&self, id: usize) -> bool {
        let is_in_front = |other: &Event| {
            other.standing != Standing::Settled && self.follow_each_other(other, &self.events[id])
        };
        self.events[..id].iter().any(is_in_front)
    }

    fn succeed(&mut self, id: usize) -> Verdict {
        match self.events.get_mut(id) {
            Some(event) if event.attempts > 0 && event.standing != Standing::Settled => {
                event.standing = Standing::Settled;
                Verdict::Settled
            }
            _ => Verdict::Late,
        }
    }

    fn fail(&mut self, id: usize, attempt: u32) -> Verdict {
        match self.events.get_mut(id) {
            Some(event) if event.standing == Standing::InFlight && event.attempts == attempt => {
                event.failures += 1;
                let is_exhausted = event.failures > self.retries;
                event.standing = if is_exhausted { Standing::Exhausted } else { Standing::Due };
                if is_exhausted { Verdict::Exhausted } else { Verdict::Again }
            }
            _ => Verdict::Late,
        }
    }

    fn page(&self, page: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.page == page && !event.is_nothing)
    }

    fn exhausted(&self, page: usize) -> Vec<Position> {
        let exhausted = self.page(page).filter(|event| event.standing == Standing::Exhausted);
        exhausted.map(|event| event.position.clone()).collect()
    }

    fn is_tolerable(&self, page: usize) -> bool {
        let share = self.page(page).count() as f64 * self.tolerance_percentage / 100.0;
        (self.exhausted(page).len() + self.forgiven[page]) as f64 <= share
    }

    fn exceeded(&self) -> Option<Vec<Position>> {
        (0..self.forgiven.len()).find(|page| !self.is_tolerable(*page)).map(|page| self.exhausted(page))
    }

    fn give_up(&mut self, which: impl Fn(&Self, usize) -> bool) -> Vec<Position> {
        let pages: Vec<usize> = (0..self.forgiven.len()).filter(|page| which(self, *page)).collect();
        let mut given_up = Vec::new();
        for event in &mut self.events {
            if event.standing == Standing::Exhausted && pages.contains(&event.page) {
                event.standing = Standing::Settled;
                given_up.push(event.position.clone());
            }
        }
        given_up
    }

    fn give_up_tolerated(&mut self) -> Vec<Position> {
        let exhausted: Vec<usize> = (0..self.forgiven.len()).map(|page| self.exhausted(page).len()).collect();
        let is_given_up = |model: &Self, page| {
            let is_closed = |event: &Event| matches!(event.standing, Standing::Settled | Standing::Exhausted);
            let is_time = model.concurrency != Concurrency::None || model.page(page).all(is_closed);
            is_time && model.is_tolerable(page)
        };
        let forgiven: Vec<bool> = (0..self.forgiven.len()).map(|page| is_given_up(self, page)).collect();
        let given_up = self.give_up(is_given_up);
        for (page, _) in forgiven.iter().enumerate().filter(|(_, is_given_up)| **is_given_up) {
            self.forgiven[page] += exhausted[page];
        }
        given_up
    }

    fn check(&self, tracker: &Tracker) {
        let is = |standing| self.events.iter().filter(move |event| event.standing == standing);
        let settled = self.events.iter().take_while(|event| event.standing == Standing::Settled).count();
        let open = &self.events[settled..];
        let payloads: usize =
            open.iter().filter(|event| event.standing != Standing::Settled).map(|event| event.payload).sum();
        assert_eq!(tracker.done(), settled.checked_sub(1).map(|last| &self.events[last].position));
        assert_eq!(tracker.in_flight(), is(Standing::InFlight).count());
        assert_eq!(tracker.bytes(), payloads + open.len() * OVERHEAD_BYTES);
        let delivered = open.iter().filter(|event| event.attempts > 0 && event.standing != Standing::Settled);
        assert_eq!(tracker.unsettled(), delivered.count());
        assert_eq!(tracker.is_drained(), open.is_empty());
        assert_eq!(tracker.has_again(), is(Standing::Due).any(|event| event.attempts > 0));
        assert_eq!(tracker.has_exhausted(), is(Standing::Exhausted).next().is_some());
        assert_eq!(tracker.exceeded().map(|exceeded| positions(&exceeded)), self.exceeded());
        for (id, event) in (0..).zip(&self.events) {
            let is_in_flight = event.standing == Standing::InFlight;
            assert_eq!(tracker.is_in_flight(EventId(id), event.attempts), is_in_flight);
            assert_eq!(tracker.is_open(EventId(id)), event.standing != Standing::Settled);
        }
        let under_way: Vec<&Event> =
            open.iter().filter(|event| event.attempts > 0 && event.standing != Standing::Settled).collect();
        for (index, event) in under_way.iter().enumerate() {
            assert!(!under_way[..index].iter().any(|other| self.follow_each_other(other, event)));
        }
        // Nothing is kept that is settled with everything before it.
        assert_eq!(tracker.entries.len(), open.len());
        assert!(
            tracker.pages.len()
                <= self.forgiven.len() - open.first().map_or(self.forgiven.len(), |event| event.page)
        );
    }
}

/// The tracker and the model side by side.
struct Pair {
    tracker: Tracker,
    model: Model,
    deliveries: Vec<(EventId, u32)>,
}

impl Pair {
    fn new(retries: u32, tolerance_percentage: f64, concurrency: Concurrency) -> Self {
        Self {
            tracker: Tracker::new(retries, tolerance_percentage, concurrency),
            model: Model { retries, tolerance_percentage, concurrency, ..Model::default() },
            deliveries: Vec::new(),
        }
    }

    fn deliver(&mut self) -> bool {
        let delivery = self.tracker.next_delivery();
        let expected = self.model.deliver();
        self.delivered(delivery, expected)
    }

    fn catch_up(&mut self) -> bool {
        let delivery = self.tracker.next_left_behind();
        let expected = self.model.catch_up();
        self.delivered(delivery, expected)
    }

    fn delivered(&mut self, delivery: Option<Delivery>, expected: Option<(usize, u32)>) -> bool {
        assert_eq!(delivery.as_ref().map(|delivery| (delivery.id.0 as usize, delivery.attempt)), expected);
        let Some(Delivery { id, attempt, event }) = delivery else { return false };
        assert_eq!(event.position(), &self.model.events[id.0 as usize].position);
        self.deliveries.push((id, attempt));
        true
    }

    fn answer(&mut self, id: EventId, attempt: u32, is_success: bool) {
        let (answer, expected) = match is_success {
            true => (EventProcessed::Processed, self.model.succeed(id.0 as usize)),
            false => (EventProcessed::failed("no"), self.model.fail(id.0 as usize, attempt)),
        };
        assert_eq!(self.tracker.answer(id, attempt, answer), expected);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::AddPage(payloads) => self.tracker.add_page(self.model.add_page(&payloads)),
            Step::Deliver(count) => (0..count).for_each(|_| _ = self.deliver()),
            Step::CatchUp(count) => (0..count).for_each(|_| _ = self.catch_up()),
            Step::Processed(_) | Step::Failed(_) if self.deliveries.is_empty() => {}
            Step::Processed(which) => {
                let (id, attempt) = *which.get(&self.deliveries);
                self.answer(id, attempt, true);
            }
            Step::Failed(which) => {
                let (id, attempt) = *which.get(&self.deliveries);
                self.answer(id, attempt, false);
            }
            Step::Foreign { id, attempt, is_success } => self.answer(EventId(id), attempt, is_success),
            Step::RecallAll => {
                self.tracker.recall_all();
                for event in &mut self.model.events {
                    if event.standing == Standing::InFlight {
                        event.standing = Standing::Due;
                    }
                }
            }
            Step::GiveUpTolerated => {
                let given_up = positions(&self.tracker.give_up_tolerated());
                assert_eq!(given_up, self.model.give_up_tolerated());
            }
            Step::GiveUpAll => {
                let given_up = positions(&self.tracker.give_up_all());
                assert_eq!(given_up, self.model.give_up(|_, _| true));
            }
        }
        self.model.check(&self.tracker);
    }

    /// All that is open is processed at last.
    fn finish(mut self) {
        self.step(Step::GiveUpAll);
        self.tracker.recall_all();
        self.model.events.iter_mut().for_each(|event| {
            if event.standing == Standing::InFlight {
                event.standing = Standing::Due;
            }
        });
        while self.deliver() {
            let (id, attempt) = self.deliveries[self.deliveries.len() - 1];
            self.answer(id, attempt, true);
        }
        self.model.check(&self.tracker);
        assert!(self.tracker.is_drained());
        assert_eq!(self.tracker.done(), self.model.events.last().map(|event| &event.position));
        assert!(self.tracker.lanes.as_ref().is_none_or(|lanes| lanes.is_empty()));
        assert!(self.model.events.iter().all(|event| event.is_nothing || event.attempts > 0));
        assert_eq!((self.tracker.bytes(), self.tracker.in_flight(), self.tracker.pages.len()), (0, 0, 0));
    }
}

proptest! {
    #[test]
    fn the_tracker_does_as_the_model_does(
        retries in 0u32..3,
        tolerance_percentage in prop::sample::select(vec![0.0, 10.0, 25.0, 50.0, 100.0]),
        concurrency in prop::sample::select(vec![Concurrency::None, Concurrency::Shard, Concurrency::Key(3)]),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut pair = Pair::new(retries, tolerance_percentage, concurrency);
        steps.into_iter().for_each(|step| pair.step(step));
        pair.finish();
    }
}

//! Where the consumer's actors run.

use actix::{Actor, Addr, Arbiter, ArbiterHandle, Context};

/// Where the consumer's actors run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// On threads of their own: one for leases and checkpoints, `worker.arbiters` for the shards. Whatever the
    /// application does on its threads, leases are renewed in time.
    #[default]
    OwnArbiters,
    /// On the thread that starts the consumer, for tests under paused time.
    CurrentThread,
}

/// One thread for actors: an arbiter, or the current thread.
#[derive(Debug, Clone)]
pub(crate) struct Place(Option<ArbiterHandle>);

impl Place {
    pub(crate) const CURRENT_THREAD: Self = Self(None);

    pub(crate) fn of(arbiter: &Arbiter) -> Self {
        Self(Some(arbiter.handle()))
    }

    /// Starts an actor there.
    pub(crate) fn start<A>(&self, make: impl FnOnce(&mut Context<A>) -> A + Send + 'static) -> Addr<A>
    where
        A: Actor<Context = Context<A>>,
    {
        match &self.0 {
            Some(arbiter) => A::start_in_arbiter(arbiter, make),
            None => A::create(make),
        }
    }
}

/// The consumer's own arbiters, which end with it.
#[derive(Debug)]
pub(crate) struct Arbiters {
    pub(crate) coordination: Place,
    pub(crate) shards: Vec<Place>,
    own: Vec<Arbiter>,
}

impl Arbiters {
    pub(crate) fn new(placement: Placement, for_shards: usize) -> Self {
        match placement {
            Placement::OwnArbiters => {
                let own: Vec<Arbiter> = (0..=for_shards).map(|_| Arbiter::new()).collect();
                let mut places = own.iter().map(Place::of);
                let coordination = places.next().unwrap_or(Place::CURRENT_THREAD);
                let shards = places.collect();
                Self { coordination, shards, own }
            }
            Placement::CurrentThread => Self {
                coordination: Place::CURRENT_THREAD,
                shards: vec![Place::CURRENT_THREAD],
                own: Vec::new(),
            },
        }
    }

    /// Whether they are threads apart from the one that has started the consumer.
    pub(crate) fn are_own(&self) -> bool {
        !self.own.is_empty()
    }

    pub(crate) fn stop(&self) {
        for arbiter in &self.own {
            arbiter.stop();
        }
    }
}

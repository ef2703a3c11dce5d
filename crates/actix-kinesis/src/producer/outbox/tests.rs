//! The outbox with a scripted Kinesis and a real file, under the paused clock.

mod accepting;
mod actor;
mod bounds;
mod disk;
mod ending;
mod order;
mod parking;
mod sending;
mod unreadable;
mod world;

//! The outbox with a scripted Kinesis and a real file, under the paused clock.

mod accepting;
mod bounds;
mod disk;
mod order;
mod parking;
mod sending;
mod world;

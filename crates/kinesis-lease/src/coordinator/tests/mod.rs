mod ask;
mod audit;
mod balance;
mod doubt;
mod end;
mod harness;
mod journal;
mod leader;
mod offer;
mod promise;
mod renew;
mod request;
mod simulation;
mod start;
mod take;

use super::*;

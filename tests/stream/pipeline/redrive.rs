//! Dead letters once more.

use super::*;

#[actix::test]
async fn of_an_event_that_was_emitted_in_part_the_rest_is_redriven() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let (sink, dead) = (Sink::refusing(|number| number % 100 == 42), Dead::default());
    let running = start(spread(10), &aws, &sink, &dead);
    dead.until(1).await;
    sink.until(99).await;
    running.stop().await.unwrap();
    let letter = &dead.letters()[0];
    assert_eq!((number(letter.event()), letter.failed()), (Ok(4), &[2][..]));
    *sink.refuses.lock().unwrap() = None;
    assert_eq!(spread(10).redrive(&dead, &sink).await.unwrap().emitted, 1);
    let mut out = sink.out();
    out.sort();
    assert_eq!(out, (0..100).collect::<Vec<_>>());
}

/// A letter of the number 4, of which ten values were made and two refused.
async fn letter_of_two(aws: &LocalAws, sink: &Sink) -> Dead {
    put_numbers(aws, 0..10);
    let dead = Dead::default();
    *sink.refuses.lock().unwrap() = Some(|number| matches!(number, 42 | 47));
    let running = start(spread(10), aws, sink, &dead);
    dead.until(1).await;
    sink.until(98).await;
    running.stop().await.unwrap();
    assert_eq!(dead.letters()[0].failed(), [2, 7]);
    *sink.refuses.lock().unwrap() = None;
    dead
}

/// Makes so many values of each number.
fn spread(values: u64) -> Pipeline<u64> {
    numbers()
        .transform(move |number| async move { Ok::<_, String>((0..values).map(move |it| 10 * number + it)) })
}

#[actix::test]
async fn a_letter_stays_while_fewer_values_are_made_of_its_event_than_when_it_failed() {
    let (aws, sink) = (local_aws(1).await, Sink::default());
    let dead = letter_of_two(&aws, &sink).await;
    let redriven = spread(7).redrive(&dead, &sink).await.unwrap();
    assert_eq!((redriven.emitted, redriven.filtered, redriven.failed), (0, 0, 1));
    assert_eq!((sink.out().len(), dead.letters()[0].failed()), (98, &[2, 7][..]));
    let redriven = spread(8).redrive(&dead, &sink).await.unwrap();
    assert_eq!((redriven.emitted, dead.letters().len()), (1, 0));
    assert_eq!(sink.out()[98..], [42, 47]);
}

#[actix::test]
async fn a_letter_of_which_nothing_is_made_any_more_is_forgotten() {
    let (aws, sink) = (local_aws(1).await, Sink::default());
    let dead = letter_of_two(&aws, &sink).await;
    let redriven = spread(10).filter(|_| false).redrive(&dead, &sink).await.unwrap();
    assert_eq!((redriven.emitted, redriven.filtered, redriven.failed), (0, 1, 0));
    assert_eq!((sink.out().len(), dead.letters().len()), (98, 0));
}

#[actix::test]
async fn of_a_letter_that_fails_again_in_part_the_rest_stays() {
    let (aws, sink) = (local_aws(1).await, Sink::default());
    let dead = letter_of_two(&aws, &sink).await;
    *sink.refuses.lock().unwrap() = Some(|number| number == 47);
    assert_eq!(spread(10).redrive(&dead, &sink).await.unwrap().failed, 1);
    assert_eq!((sink.out()[98..].to_vec(), dead.letters()[0].failed()), (vec![42], &[7][..]));
    *sink.refuses.lock().unwrap() = None;
    assert_eq!(spread(10).redrive(&dead, &sink).await.unwrap().emitted, 1);
    assert_eq!((&sink.out()[98..], dead.letters().len()), (&[42, 47][..], 0));
}

#[actix::test]
async fn a_letter_is_emitted_if_the_emitter_names_no_item_of_it_as_failed() {
    /// Takes all, and says that something failed that was not there.
    struct Confused(Sink);
    impl Emitter<u64> for Confused {
        async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
            self.0.emit(batch).await?;
            Err(EmitError::Items(vec![FailedItem { place: 99, cause: "who knows".to_owned() }]))
        }
    }

    let (aws, sink) = (local_aws(1).await, Sink::default());
    let dead = letter_of_two(&aws, &sink).await;
    let redriven = spread(10).redrive(&dead, &Confused(sink.clone())).await.unwrap();
    assert_eq!((redriven.emitted, redriven.failed, dead.letters().len()), (1, 0, 0));
}

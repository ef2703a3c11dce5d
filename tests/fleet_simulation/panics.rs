//! Panics of the product, told from those that are planned.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static UNPLANNED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// From now on panics of this thread are taken note of.
pub(crate) fn begin() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload_as_str().unwrap_or_default();
            if text != crate::PLANNED_PANIC && text != "a bug in a client" {
                UNPLANNED.with_borrow_mut(|unplanned| unplanned.push(panic.to_string()));
                usual(panic);
            }
        }));
    });
    end();
}

/// The panics since the beginning that nobody has planned.
pub(crate) fn end() -> Vec<String> {
    UNPLANNED.take()
}

//! The known name that someone may have meant.

/// How alike two names must be, from 0 to 1.
const ALIKE: f64 = 0.7;

/// The candidate most like `name`, if one is alike enough. A key at the wrong level counts as nearly right.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_ascii_lowercase();
        let whole = strsim::normalized_damerau_levenshtein(&name, &candidate);
        whole.max(0.9 * strsim::normalized_damerau_levenshtein(last_segment(&name), last_segment(&candidate)))
    };
    candidates
        .into_iter()
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KNOWN: [&str; 4] =
        ["worker.batch-timeout", "lease.failover-time", "kcl.failoverTimeMillis", "aws.region"];

    #[test]
    fn slips_of_letters_case_and_level_are_seen_through() {
        assert_eq!(nearest("worker.batch-timout", KNOWN), Some("worker.batch-timeout"));
        assert_eq!(nearest("kcl.failOverTimeMillis", KNOWN), Some("kcl.failoverTimeMillis"));
        assert_eq!(nearest("batch-timeout", KNOWN), Some("worker.batch-timeout"));
    }

    #[test]
    fn what_is_like_nothing_has_no_nearest() {
        assert_eq!(nearest("colour", KNOWN), None);
    }
}

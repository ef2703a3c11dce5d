//! The KPL aggregation format.

//! How a consumer is started as something else.

/// The functions that start it, from its settings and what is said of the consumer besides.
macro_rules! starts {
    ($what:literal, |$conf:ident, $configure:ident| $start:expr) => {
        #[doc = concat!("Starts a consumer and gives ", $what, ". It must be called inside an actix system.")]
        ///
        /// # Errors
        /// As [`KinesisConsumer::start`](crate::consumer::KinesisConsumer::start).
        pub fn start(
            conf: crate::config::ConsumerConf,
        ) -> Result<Self, crate::consumer::ConsumerError> {
            Self::start_with(conf, |consumer| consumer)
        }

        #[doc = concat!("Starts a consumer with more said about it, its notices for instance, and gives ", $what, ".")]
        ///
        /// # Errors
        /// As [`KinesisConsumer::start`](crate::consumer::KinesisConsumer::start).
        pub fn start_with(
            $conf: crate::config::ConsumerConf,
            $configure: impl FnOnce(crate::consumer::ConsumerBuilder) -> crate::consumer::ConsumerBuilder,
        ) -> Result<Self, crate::consumer::ConsumerError> {
            $start
        }
    };
}

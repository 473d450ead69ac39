//! HTTP: how a request travels. No other module names hyper, a status code or a header.

//! Builds the parts in order, runs them, shuts them down in reverse order.

//! Archives

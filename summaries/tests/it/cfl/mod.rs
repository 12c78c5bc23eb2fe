//! Values of one function: what is equal, what may alias, what an outsider sees. Judged by brute force.

pub(crate) mod brute;
mod random;
mod reduce;

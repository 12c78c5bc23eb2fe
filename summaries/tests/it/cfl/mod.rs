//! Equality, aliasing and external visibility of the values of one function, compared with a brute-force solver.

pub(crate) mod brute;
mod random;
mod reduce;

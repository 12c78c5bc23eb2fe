//! Values of one function: what is equal, what may alias, what an outsider sees. Judged by brute force.

mod alias;
mod brute;
mod passthrough;
mod random;
mod reduce;
mod relations;

mod v1;
mod v3;
mod world;

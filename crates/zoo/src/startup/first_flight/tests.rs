mod halfback;
mod jump_start;

"""The meter of training in training loops of other libraries; each module needs its library."""

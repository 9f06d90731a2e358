// RUN: qd-opt %s --qd-split-tasks --verify-diagnostics

// No iteration of a parallel loop can end the kernel.
qd.kernel @return_in_loop [] attributes {argument_bytes = 0 : i32} {
  %zero = qd.constant 0 : si32
  qd.for parallel (%zero) to (%zero) : (si32) to (si32) {
  ^body(%i: si32):
    // expected-error @below {{return inside a parallel loop}}
    qd.return
  }
}

// RUN: qd-opt %s --qd-check-barriers --verify-diagnostics
// A barrier in a branch that some threads of the block do not take is an error; unknown and uniform conditions are none. Operations may
// require a number of threads, also in functions.

qd.kernel @k [] attributes {argument_bytes = 0 : i32} {
  %zero = qd.constant 0 : si32
  %end = qd.constant 128 : si32
  %limit = qd.constant 16 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 64 : i32} {
  ^bb0(%i: si32):
    %thread = qd.thread : si32
    %few = qd.binary lt %thread, %limit : si32, si32 -> i1
    qd.if %few {
      // expected-error @below {{some threads of a block never reach this barrier, for which the others wait: move it out of the branch}}
      qd.barrier
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 16 : i32} {
  ^bb0(%i: si32):
    %thread = qd.thread : si32
    %all = qd.binary lt %thread, %limit : si32, si32 -> i1
    qd.if %all {
      qd.barrier
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 64 : i32} {
  ^bb0(%i: si32):
    %right = qd.block size {qd.required = 64 : i32} : si32
    // expected-error @below {{block_dim must be a positive multiple of subgroup size, and the same as that of the loop, 64}}
    %wrong = qd.block size {qd.required = 32 : i32} : si32
    qd.yield
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^bb0(%i: si32):
    // expected-error @below {{the same as that of the loop, 128}}
    qd.call @f() : () -> ()
    qd.yield
  }
}

qd.func @f() {
  %wrong = qd.block size {qd.required = 32 : i32} : si32
  qd.return
}

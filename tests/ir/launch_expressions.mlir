// RUN: qd-opt %s --test-launch-expressions | FileCheck %s

// The host can compute loop bounds before a launch from constants, arguments (by their offsets) and extents.
// CHECK-LABEL: qd.kernel @bounds
qd.kernel @bounds [] attributes {argument_bytes = 64 : i32} {
  %n = qd.argument 0 : si32
  %m = qd.argument 4 : si32
  %real = qd.argument 8 : f32
  %x = qd.tensor_argument "x" at 16 position 0 : !qd.tensor<f32, [?, 5, ?], [], 4>
  %zero = qd.constant 0 : si32
  %two = qd.constant 2 : si32
  // CHECK: test.bounds = "0 to arg0"
  qd.for (%zero) to (%n) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.yield
  }
  // Dynamic extents follow the address, 8 bytes each.
  %first = qd.extent %x 0 : !qd.tensor<f32, [?, 5, ?], [], 4> -> si32
  %fixed = qd.extent %x 1 : !qd.tensor<f32, [?, 5, ?], [], 4> -> si32
  %last = qd.extent %x 2 : !qd.tensor<f32, [?, 5, ?], [], 4> -> si32
  // CHECK: test.bounds = "arg24 to arg32, 0 to 5"
  qd.for (%first, %zero) to (%last, %fixed) : (si32, si32) to (si32, si32) {
  ^bb0(%i: si32, %j: si32):
    qd.yield
  }
  %sum = qd.binary add %n, %two : si32, si32 -> si32
  %product = qd.binary mul %sum, %m : si32, si32 -> si32
  %quotient = qd.binary floor_div %product, %two : si32, si32 -> si32
  %difference = qd.binary sub %n, %m : si32, si32 -> si32
  %least = qd.binary min %difference, %quotient : si32, si32 -> si32
  %most = qd.binary max %least, %n : si32, si32 -> si32
  // CHECK: test.bounds = "((arg0 + 2) * arg4) to (((arg0 - arg4) min (((arg0 + 2) * arg4) / 2)) max arg0)"
  qd.for (%product) to (%most) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.yield
  }
  %isLess = qd.binary lt %m, %n : si32, si32 -> i1
  %choice = qd.select %isLess, %difference, %zero : i1, si32
  // CHECK: test.bounds = "0 to (0 + (((arg0 - arg4) - 0) * (((arg0 - arg4) max 0) min 1)))"
  qd.for (%zero) to (%choice) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.yield
  }
  // Other operators, floats and loaded values are unknown to the host.
  %rest = qd.binary mod %n, %two : si32, si32 -> si32
  %whole = qd.cast %real : f32 -> si32
  // CHECK: test.bounds = "? to ?"
  qd.for (%rest) to (%whole) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.yield
  }
  %count = qd.tensor_argument "count" at 48 position 0 : !qd.tensor<si32, [], [], 4>
  %place = qd.element %count[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
  %read = qd.load %place : !qd.ref<si32>
  %shifted = qd.binary add %read, %n : si32, si32 -> si32
  // CHECK: test.bounds = "0 to ?"
  qd.for (%zero) to (%shifted) : (si32) to (si32) {
  ^bb0(%i: si32):
    // The index of a loop is not known at launch.
    // CHECK: test.bounds = "0 to ?"
    qd.for (%zero) to (%i) : (si32) to (si32) {
    ^bb0(%j: si32):
      qd.yield
    }
    qd.yield
  }
}

// RUN: qd-opt %s --split-input-file --test-accessed-regions | FileCheck %s

// For each axis the first and the last index that is read, and the first and the last that is written.
// CHECK-LABEL: qd.kernel @shift
// CHECK: "x" at 0 {{.*}}test.read = "arg32 to arg32, 1 to (8 - 1)", test.written = "(arg32 + 1) to (arg32 + 1), 1 to (8 - 1)"
// CHECK: "y" at 8 {{.*}}test.read = "nothing", test.written = "nothing"
qd.kernel @shift [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4, 8], [32, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [4], [4], 4>
  %t = qd.argument 32 : si32
  %one = qd.constant 1 : si32
  %eight = qd.constant 8 : si32
  %next = qd.binary add %t, %one : si32, si32 -> si32
  qd.for parallel (%one) to (%eight) : (si32) to (si32) {
  ^bb0(%i: si32):
    %from = qd.element %x[%t, %i] : !qd.tensor<f32, [4, 8], [32, 4], 4>, si32, si32 -> !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %to = qd.element %x[%next, %i] : !qd.tensor<f32, [4, 8], [32, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %v, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Several accesses give one region, from the least to the greatest bound; equal bounds stay as they are.
// CHECK-LABEL: qd.kernel @stencil
// CHECK: "x" at 0 {{.*}}test.read = "((1 - 1) min (1 + 1)) to (((7 - 1) - 1) max ((7 - 1) + 1))"
// CHECK-SAME: test.written = "1 to (7 - 1)"
qd.kernel @stencil [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
  %one = qd.constant 1 : si32
  %seven = qd.constant 7 : si32
  qd.for (%one) to (%seven) : (si32) to (si32) {
  ^bb0(%i: si32):
    %before = qd.binary sub %i, %one : si32, si32 -> si32
    %after = qd.binary add %i, %one : si32, si32 -> si32
    %left = qd.element %x[%before] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %right = qd.element %x[%after] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %place = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %a = qd.load %left : !qd.ref<f32>
    %b = qd.load %right : !qd.ref<f32>
    %sum = qd.binary add %a, %b : f32, f32 -> f32
    qd.store %sum, %place : !qd.ref<f32>
    qd.store %a, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Atomic additions read nothing unless the old value is used; other atomic operations read. An index that is loaded from memory is unknown.
// CHECK-LABEL: qd.kernel @atomics
// CHECK: "sum" at 0 {{.*}}test.read = "nothing", test.written = "0 to 0"
// CHECK: "count" at 8 {{.*}}test.read = "0 to 0", test.written = "0 to 0"
// CHECK: "most" at 16 {{.*}}test.read = "? to ?", test.written = "? to ?"
qd.kernel @atomics [] attributes {argument_bytes = 24 : i32} {
  %sum = qd.tensor_argument field "sum" at 0 position 0 : !qd.tensor<si32, [4], [4], 4>
  %count = qd.tensor_argument field "count" at 8 position 0 : !qd.tensor<si32, [4], [4], 4>
  %most = qd.tensor_argument field "most" at 16 position 0 : !qd.tensor<si32, [4], [4], 4>
  %zero = qd.constant 0 : si32
  %a = qd.element %sum[%zero] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %b = qd.element %count[%zero] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %unused = qd.atomic add %a, %zero : !qd.ref<si32>
  %old = qd.atomic add %b, %zero : !qd.ref<si32>
  %c = qd.element %most[%old] : !qd.tensor<si32, [4], [4], 4>, si32 -> !qd.ref<si32>
  %unused2 = qd.atomic max %c, %zero : !qd.ref<si32>
}

// -----

// Arithmetic on indices keeps or reverses the order of the bounds; a remainder has its own bounds.
// CHECK-LABEL: qd.kernel @arithmetic
// CHECK: "a" at 0 {{.*}}test.read = "(8 - (5 - 1)) to (8 - 0)"
// CHECK: "b" at 8 {{.*}}test.read = "(0 * 2) to ((5 - 1) * 2)"
// CHECK: "c" at 16 {{.*}}test.read = "0 to 1"
// CHECK: "d" at 24 {{.*}}test.read = "? to ?"
qd.kernel @arithmetic [] attributes {argument_bytes = 32 : i32} {
  %a = qd.tensor_argument field "a" at 0 position 0 : !qd.tensor<f32, [16], [4], 4>
  %b = qd.tensor_argument field "b" at 8 position 0 : !qd.tensor<f32, [16], [4], 4>
  %c = qd.tensor_argument field "c" at 16 position 0 : !qd.tensor<f32, [16], [4], 4>
  %d = qd.tensor_argument field "d" at 24 position 0 : !qd.tensor<f32, [16], [4], 4>
  %zero = qd.constant 0 : si32
  %two = qd.constant 2 : si32
  %five = qd.constant 5 : si32
  %eight = qd.constant 8 : si32
  qd.for (%zero) to (%five) : (si32) to (si32) {
  ^bb0(%i: si32):
    %back = qd.binary sub %eight, %i : si32, si32 -> si32
    %double = qd.binary mul %i, %two : si32, si32 -> si32
    %rest = qd.binary mod %i, %two : si32, si32 -> si32
    %square = qd.binary mul %i, %i : si32, si32 -> si32
    %pa = qd.element %a[%back] : !qd.tensor<f32, [16], [4], 4>, si32 -> !qd.ref<f32>
    %pb = qd.element %b[%double] : !qd.tensor<f32, [16], [4], 4>, si32 -> !qd.ref<f32>
    %pc = qd.element %c[%rest] : !qd.tensor<f32, [16], [4], 4>, si32 -> !qd.ref<f32>
    %pd = qd.element %d[%square] : !qd.tensor<f32, [16], [4], 4>, si32 -> !qd.ref<f32>
    %va = qd.load %pa : !qd.ref<f32>
    %vb = qd.load %pb : !qd.ref<f32>
    %vc = qd.load %pc : !qd.ref<f32>
    %vd = qd.load %pd : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A parameter has the range of all calls' arguments; a variable has the range of all stored values. A function may read and write any place
// that it gets as an argument.
// CHECK-LABEL: qd.kernel @calls
// CHECK: "x" at 0 {{.*}}test.read = "1 to 1", test.written = "1 to 1"
qd.kernel @calls [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
  %one = qd.constant 1 : si32
  %three = qd.constant 3 : si32
  %place = qd.element %x[%one] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  qd.call @touch(%place) : (!qd.ref<f32>) -> ()
  qd.call @fill(%one) : (si32) -> ()
  qd.call @fill(%three) : (si32) -> ()
}
qd.func @touch(%place: !qd.ref<f32>) {
  qd.return
}
// CHECK: qd.func @fill
// CHECK: "y" at 8 {{.*}}test.read = "({{0 min 5|5 min 0}}) to ({{0 max 5|5 max 0}})", test.written = "(1 min 3) to (1 max 3)"
qd.func @fill(%i: si32) {
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %five = qd.constant 5 : si32
  %to = qd.element %y[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %variable = qd.local : !qd.ref<si32>
  qd.store %zero, %variable : !qd.ref<si32>
  qd.store %five, %variable : !qd.ref<si32>
  %index = qd.load %variable : !qd.ref<si32>
  %from = qd.element %y[%index] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %v = qd.load %from : !qd.ref<f32>
  qd.store %v, %to : !qd.ref<f32>
  qd.return
}

// -----

// A loop with a negative step, and a variable that depends on itself.
// CHECK-LABEL: qd.kernel @variables
// CHECK: "x" at 0 {{.*}}test.read = "(0 + 1) to 7"
// CHECK: "y" at 8 {{.*}}test.read = "? to ?"
qd.kernel @variables [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %seven = qd.constant 7 : si32
  %one = qd.constant 1 : si32
  %back = qd.constant -1 : si32
  %counter = qd.local : !qd.ref<si32>
  qd.store %zero, %counter : !qd.ref<si32>
  qd.for (%seven) to (%zero) step (%back) : (si32) to (si32) step (si32) {
  ^bb0(%i: si32):
    %px = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %vx = qd.load %px : !qd.ref<f32>
    %count = qd.load %counter : !qd.ref<si32>
    %next = qd.binary add %count, %one : si32, si32 -> si32
    qd.store %next, %counter : !qd.ref<si32>
    %py = qd.element %y[%next] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
    %vy = qd.load %py : !qd.ref<f32>
    qd.yield
  }
}

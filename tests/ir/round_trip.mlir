// RUN: qd-opt %s | qd-opt | FileCheck %s
// Every op is printed so that it can be read again.

// CHECK-LABEL: qd.func @scaled
// CHECK-SAME: (%{{.*}}: f32, %{{.*}}: !qd.ref<vector<3xf32>>, %{{.*}}: !qd.tensor<f32, [?], [], 4>) -> f32
qd.func @scaled(%factor: f32, %place: !qd.ref<vector<3xf32>>, %array: !qd.tensor<f32, [?], [], 4>) -> f32 {
  %zero = qd.constant 0 : si32
  // CHECK: qd.component %{{.*}}[%{{.*}}] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
  %first = qd.component %place[%zero] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
  %value = qd.load %first : !qd.ref<f32>
  %product = qd.binary mul %value, %factor : f32, f32 -> f32
  qd.return %product : f32
}

// CHECK-LABEL: qd.kernel @operators [f32, vector<2xsi32>] attributes {argument_bytes = 64 : i32}
qd.kernel @operators [f32, vector<2xsi32>] attributes {argument_bytes = 64 : i32} {
  // CHECK: qd.argument 0 : f32
  %x = qd.argument 0 : f32
  %i = qd.argument 4 : si32
  // CHECK: qd.tensor_argument "array" at 8 position 1 : !qd.tensor<f32, [?], [], 4>
  %array = qd.tensor_argument "array" at 8 position 1 : !qd.tensor<f32, [?], [], 4>
  // CHECK: qd.tensor_argument field "grid" at 24 position 0 : !qd.tensor<vector<2xf32>, [16, 8], [64, 8], 4>
  %grid = qd.tensor_argument field "grid" at 24 position 0 : !qd.tensor<vector<2xf32>, [16, 8], [64, 8], 4>
  // CHECK: qd.constant dense<[1, 2]> : vector<2xsi32>
  %pair = qd.constant dense<[1, 2]> : vector<2xsi32>
  %true = qd.constant true
  // CHECK: qd.unary isnan %{{.*}} : f32 -> i1
  %nan = qd.unary isnan %x : f32 -> i1
  // CHECK: qd.unary neg %{{.*}} : vector<2xsi32> -> vector<2xsi32>
  %negated = qd.unary neg %pair : vector<2xsi32> -> vector<2xsi32>
  // CHECK: qd.binary lt %{{.*}}, %{{.*}} : si32, si32 -> i1
  %less = qd.binary lt %i, %i : si32, si32 -> i1
  // CHECK: qd.select %{{.*}}, %{{.*}}, %{{.*}} : i1, vector<2xsi32>
  %chosen = qd.select %less, %pair, %negated : i1, vector<2xsi32>
  // CHECK: qd.cast %{{.*}} : si32 -> ui64
  %wide = qd.cast %i : si32 -> ui64
  // CHECK: qd.bit_cast %{{.*}} : f32 -> ui32
  %bits = qd.bit_cast %x : f32 -> ui32
  // CHECK: qd.random : f32
  %random = qd.random : f32
  // CHECK: qd.clock : si64
  %clock = qd.clock : si64
  // CHECK: qd.vector %{{.*}}, %{{.*}} : f32, f32 -> vector<2xf32>
  %vector = qd.vector %x, %random : f32, f32 -> vector<2xf32>
  // CHECK: qd.broadcast %{{.*}} : f32 -> vector<2x2xf32>
  %matrix = qd.broadcast %x : f32 -> vector<2x2xf32>
  // CHECK: qd.extract %{{.*}} 1 : vector<2xf32> -> f32
  %second = qd.extract %vector 1 : vector<2xf32> -> f32
  // CHECK: qd.extract_at %{{.*}}[%{{.*}}, %{{.*}}] : vector<2x2xf32>, si32, si32 -> f32
  %at = qd.extract_at %matrix[%i, %i] : vector<2x2xf32>, si32, si32 -> f32
  // CHECK: qd.reduce add %{{.*}} : vector<2xf32> -> f32
  %sum = qd.reduce add %vector : vector<2xf32> -> f32
  // CHECK: qd.matmul %{{.*}}, %{{.*}} : vector<2x2xf32>, vector<2xf32> -> vector<2xf32>
  %moved = qd.matmul %matrix, %vector : vector<2x2xf32>, vector<2xf32> -> vector<2xf32>
  // CHECK: qd.transpose %{{.*}} : vector<2x2xf32> -> vector<2x2xf32>
  %turned = qd.transpose %matrix : vector<2x2xf32> -> vector<2x2xf32>
  // CHECK: qd.extent %{{.*}} 0 : !qd.tensor<f32, [?], [], 4> -> si32
  %extent = qd.extent %array 0 : !qd.tensor<f32, [?], [], 4> -> si32
  // CHECK: qd.local : !qd.ref<vector<3xf32>>
  %local = qd.local : !qd.ref<vector<3xf32>>
  %ones = qd.broadcast %x : f32 -> vector<3xf32>
  // CHECK: qd.store %{{.*}}, %{{.*}} : !qd.ref<vector<3xf32>>
  qd.store %ones, %local : !qd.ref<vector<3xf32>>
  // CHECK: qd.call @scaled(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, !qd.ref<vector<3xf32>>, !qd.tensor<f32, [?], [], 4>) -> f32
  %called = qd.call @scaled(%x, %local, %array) : (f32, !qd.ref<vector<3xf32>>, !qd.tensor<f32, [?], [], 4>) -> f32
  // CHECK: qd.element %{{.*}}[%{{.*}}, %{{.*}}] : !qd.tensor<vector<2xf32>, [16, 8], [64, 8], 4>, si32, si32 -> !qd.ref<vector<2xf32>>
  %cell = qd.element %grid[%i, %i] : !qd.tensor<vector<2xf32>, [16, 8], [64, 8], 4>, si32, si32 -> !qd.ref<vector<2xf32>>
  // CHECK: qd.atomic add %{{.*}}, %{{.*}} : !qd.ref<vector<2xf32>>
  %old = qd.atomic add %cell, %vector : !qd.ref<vector<2xf32>>
  %number = qd.local : !qd.ref<si32>
  // CHECK: qd.compare_exchange %{{.*}}, %{{.*}}, %{{.*}} : !qd.ref<si32>, si32
  %was = qd.compare_exchange %number, %i, %extent : !qd.ref<si32>, si32
  // CHECK: qd.assert %{{.*}}, 1 ["x is ", [".2f"]](%{{.*}} : f32)
  qd.assert %true, 1 ["x is ", [".2f"]](%x : f32)
  // CHECK: qd.print ["done"]
  qd.print ["done"]
  // CHECK: qd.if %{{.*}} {
  qd.if %nan {
    // CHECK: qd.return %{{.*}}, %{{.*}} : f32, vector<2xsi32>
    qd.return %sum, %chosen : f32, vector<2xsi32>
  // CHECK: } else {
  } else {
    qd.yield
  }
  // CHECK: qd.for (%{{.*}}) to (%{{.*}}) step (%{{.*}}) : (si32) to (si32) step (si32) {
  qd.for (%i) to (%extent) step (%i) : (si32) to (si32) step (si32) {
  ^body(%j: si32):
    // CHECK: qd.while {
    qd.while {
      // CHECK: qd.condition %{{.*}}
      qd.condition %less
    // CHECK: } do {
    } do {
      // CHECK: qd.break
      qd.break
    }
    // CHECK: qd.continue
    qd.continue
  }
  // CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%{{.*}}, %{{.*}}) : (si32, si32) to (si32, si32) attributes {block_dim = 64 : i32} {
  qd.for parallel (%i, %i) to (%extent, %extent) : (si32, si32) to (si32, si32) attributes {block_dim = 64 : i32} {
  ^body(%a: si32, %b: si32):
    qd.yield
  }
  qd.return %called, %pair : f32, vector<2xsi32>
}

// CHECK-LABEL: qd.kernel @tasks
qd.kernel @tasks [] attributes {argument_bytes = 16 : i32, scratch_bytes = 4 : i32} {
  // CHECK: qd.task parallel {
  qd.task parallel {
    %zero = qd.constant 0 : si32
    // CHECK: qd.scratch 0 : !qd.ref<f32>
    %total = qd.scratch 0 : !qd.ref<f32>
    // CHECK: qd.accumulator add %{{.*}} : !qd.ref<f32>
    %sum = qd.accumulator add %total : !qd.ref<f32>
    %bins = qd.tensor_argument "bins" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
    // CHECK: qd.private_copy add %{{.*}} : !qd.tensor<f32, [?], [], 4>
    %copy = qd.private_copy add %bins : !qd.tensor<f32, [?], [], 4>
    qd.for parallel (%zero) to (%zero) : (si32) to (si32) {
    ^body(%i: si32):
      qd.yield
    }
  }
  // CHECK: qd.task {
  qd.task {
    qd.print ["end"]
  }
}

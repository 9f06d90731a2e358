// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --lanes=4 --split-input-file | FileCheck %s

// Neighboring lanes access neighboring elements by wide accesses; a remainder that does not fill a vector is masked.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: load <4 x float>
// CHECK: fmul {{.*}}<4 x float>
// CHECK: store <4 x float>
// CHECK: tail:
// CHECK: call {{.*}}@llvm.masked.load.v4f32
// CHECK: call void @llvm.masked.store.v4f32
qd.kernel @contiguous [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1001], [4], 4>
  %a = qd.argument 8 : f32
  %zero = qd.constant 0 : si32
  %end = qd.constant 1001 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.load %place : !qd.ref<f32>
    %new = qd.binary mul %old, %a : f32, f32 -> f32
    qd.store %new, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Rows whose length is a multiple of a vector have no remainder; only the first row needs a division.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: first.row:
// CHECK: udiv
// CHECK: row:
// CHECK-NOT: {{udiv|urem}}
// CHECK: store <4 x float>
// CHECK-NOT: tail:
// CHECK: ret void
qd.kernel @even_rows [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [5, 8], [32, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 5 : si32
  %columns = qd.constant 8 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %one = qd.constant 1.0 : f32
    %place = qd.element %x[%i, %j] : !qd.tensor<f32, [5, 8], [32, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Packed vectors are loaded as a whole and shuffled apart; a uniform index gives one scalar access; a loaded index gives a gather.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: load <12 x float>
// CHECK: shufflevector <12 x float> {{.*}} <4 x i32> <i32 0, i32 3, i32 6, i32 9>
// CHECK: load float, ptr
// CHECK: call {{.*}}@llvm.masked.gather.v4f32
qd.kernel @accesses [] attributes {argument_bytes = 32 : i32} {
  %points = qd.tensor_argument field "points" at 0 position 0 : !qd.tensor<vector<3xf32>, [64], [12], 4>
  %table = qd.tensor_argument field "table" at 8 position 1 : !qd.tensor<f32, [64], [4], 4>
  %keys = qd.tensor_argument field "keys" at 16 position 2 : !qd.tensor<si32, [64], [4], 4>
  %n = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %point = qd.element %points[%i] : !qd.tensor<vector<3xf32>, [64], [12], 4>, si32 -> !qd.ref<vector<3xf32>>
    %vector = qd.load %point : !qd.ref<vector<3xf32>>
    %sum = qd.reduce add %vector : vector<3xf32> -> f32
    %shared = qd.element %table[%n] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    %a = qd.load %shared : !qd.ref<f32>
    %key = qd.element %keys[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %k = qd.load %key : !qd.ref<si32>
    %scattered = qd.element %table[%k] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    %b = qd.load %scattered : !qd.ref<f32>
    %ab = qd.binary add %a, %b : f32, f32 -> f32
    %abc = qd.binary add %ab, %sum : f32, f32 -> f32
    %all = qd.broadcast %abc : f32 -> vector<3xf32>
    qd.store %all, %point : !qd.ref<vector<3xf32>>
    qd.yield
  }
}

// -----

// A member of structs: the elements between are loaded, too, and shuffled away, up to the last member; they are not stored. Under a mask, each
// vector has one of its own. The tail is small code: gathers.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: [[FLAGS:%.*]] = load <4 x i32>
// CHECK: [[MASK:%.*]] = icmp ne <4 x i32> [[FLAGS]]
// CHECK-NOT: gather
// CHECK: shufflevector <4 x i1> [[MASK]], {{.*}} <4 x i32> <i32 0, i32 0, i32 0, i32 1>
// CHECK: shufflevector <4 x i1> [[MASK]], {{.*}} <4 x i32> <i32 1, i32 1, i32 2, i32 2>
// CHECK: shufflevector <4 x i1> [[MASK]], {{.*}} <4 x i32> <i32 2, i32 2, i32 2, i32 3>
// CHECK: call {{.*}}@llvm.masked.load.v4f32
// CHECK: getelementptr {{.*}} i64 16
// CHECK: call {{.*}}@llvm.masked.load.v4f32
// CHECK: getelementptr {{.*}} i64 24
// CHECK: call {{.*}}@llvm.masked.load.v4f32
// CHECK: shufflevector <12 x float> {{.*}} <4 x i32> <i32 0, i32 3, i32 6, i32 11>
// CHECK: and <4 x i1> {{.*}}, <i1 true, i1 false, i1 false, i1 true>
// CHECK: and <4 x i1> {{.*}}, <i1 false, i1 false, i1 true, i1 false>
// CHECK: and <4 x i1> {{.*}}, <i1 false, i1 false, i1 false, i1 true>
// CHECK-COUNT-3: call void @llvm.masked.store.v4f32
// CHECK: tail:
// CHECK: masked.gather
// CHECK: masked.scatter
qd.kernel @members [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [63], [12], 4>
  %flags = qd.tensor_argument field "flags" at 8 position 1 : !qd.tensor<si32, [63], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 63 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %flagged = qd.element %flags[%i] : !qd.tensor<si32, [63], [4], 4>, si32 -> !qd.ref<si32>
    %flag = qd.load %flagged : !qd.ref<si32>
    %isSet = qd.binary ne %flag, %zero : si32, si32 -> i1
    qd.if %isSet {
      %place = qd.element %x[%i] : !qd.tensor<f32, [63], [12], 4>, si32 -> !qd.ref<f32>
      %old = qd.load %place : !qd.ref<f32>
      %new = qd.binary add %old, %old : f32, f32 -> f32
      qd.store %new, %place : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A masked store of a member would delay the load of another one behind it: both are reached one by one.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: load <4 x float>
// CHECK: call {{.*}}@llvm.masked.scatter.v4f32
// CHECK: call {{.*}}@llvm.masked.gather.v4f32
// CHECK: tail:
qd.kernel @sequence [] attributes {argument_bytes = 24 : i32} {
  %a = qd.tensor_argument field "a" at 0 position 0 : !qd.tensor<f32, [63], [8], 4>
  %b = qd.tensor_argument field "b" at 8 position 1 : !qd.tensor<f32, [63], [8], 4>
  %c = qd.tensor_argument field "c" at 16 position 2 : !qd.tensor<f32, [63], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 63 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %first = qd.element %c[%i] : !qd.tensor<f32, [63], [4], 4>, si32 -> !qd.ref<f32>
    %number = qd.load %first : !qd.ref<f32>
    %to = qd.element %a[%i] : !qd.tensor<f32, [63], [8], 4>, si32 -> !qd.ref<f32>
    qd.store %number, %to : !qd.ref<f32>
    %from = qd.element %b[%i] : !qd.tensor<f32, [63], [8], 4>, si32 -> !qd.ref<f32>
    %other = qd.load %from : !qd.ref<f32>
    qd.store %other, %first : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Neighboring elements of blocks that are as long as a vector: it has two parts of two blocks at most, and two loads reach both.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: ashr <4 x i32> {{.*}}, splat (i32 3)
// CHECK: [[OFFSETS:%.*]] = add <4 x i32> {{.*}}<i32 0, i32 4, i32 8, i32 12>
// CHECK: icmp eq <4 x i32> [[OFFSETS]]
// CHECK: load <4 x float>
// CHECK: load <4 x float>
// CHECK: select {{.*}}<4 x i1>
// CHECK: store <4 x float>
// CHECK: tail:
// CHECK: [[FIRST:%.*]] = call {{.*}}@llvm.masked.load.v4f32
// CHECK: call {{.*}}@llvm.masked.load.v4f32.p0(ptr {{.*}}, <4 x i1> {{.*}}, <4 x float> [[FIRST]])
qd.kernel @runs [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4 tiles [0, 8, 20]>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 62 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %next = qd.binary add %i, %one : si32, si32 -> si32
    %from = qd.element %x[%next] : !qd.tensor<f32, [64], [4], 4 tiles [0, 8, 20]>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A blocked layout: each block of three elements adds 20 bytes to the 12 of its elements, and the lanes' places have no stride.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: sdiv <4 x i32> {{.*}}, splat (i32 3)
// CHECK: mul <4 x i32> {{.*}}, splat (i32 20)
// CHECK: call void @llvm.masked.scatter.v4f32
qd.kernel @tiles [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [12], [4], 4 tiles [0, 3, 20]>
  %a = qd.argument 8 : f32
  %zero = qd.constant 0 : si32
  %end = qd.constant 12 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [12], [4], 4 tiles [0, 3, 20]>, si32 -> !qd.ref<f32>
    qd.store %a, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Adjacent components of elements that lie apart: one load of four for each lane, which shuffles transpose, and one store of two, which are
// the rest. The tail is small code: gathers.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK-COUNT-4: load <4 x float>
// CHECK-NOT: gather
// CHECK: [[PAIRS:%.*]] = shufflevector <4 x float> {{.*}} <4 x i32> <i32 0, i32 4, i32 1, i32 5>
// CHECK: shufflevector <4 x float> [[PAIRS]], {{.*}} <4 x i32> <i32 0, i32 1, i32 4, i32 5>
// CHECK-COUNT-4: load <2 x float>
// CHECK-COUNT-4: store <4 x float>
// CHECK-COUNT-4: store <2 x float>
// CHECK: tail:
// CHECK: masked.gather
// CHECK: masked.scatter
qd.kernel @rows [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<6xf32>, [63], [32], 4>
  %a = qd.argument 8 : f32
  %zero = qd.constant 0 : si32
  %end = qd.constant 63 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<vector<6xf32>, [63], [32], 4>, si32 -> !qd.ref<vector<6xf32>>
    %old = qd.load %place : !qd.ref<vector<6xf32>>
    %factor = qd.broadcast %a : f32 -> vector<6xf32>
    %new = qd.binary mul %old, %factor : vector<6xf32>, vector<6xf32> -> vector<6xf32>
    qd.store %new, %place : !qd.ref<vector<6xf32>>
    qd.yield
  }
}

// -----

// An index at a border: a vector in which no lane is clamped is one wide load; others are gathered. Both are masked in the tail, where only
// the gather remains, because it is short code.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: icmp eq <4 x i32>
// CHECK: free:
// CHECK-NEXT: load <4 x float>
// CHECK: free.else:
// CHECK: call {{.*}}@llvm.masked.gather.v4f32
// CHECK: tail:
// CHECK-NOT: free{{.*}}:
// CHECK: call {{.*}}@llvm.masked.gather.v4f32
// CHECK: call void @llvm.masked.store
qd.kernel @clamped [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1001], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [1001], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 1001 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %left = qd.binary sub %i, %one : si32, si32 -> si32
    %at = qd.binary max %left, %zero : si32, si32 -> si32
    %from = qd.element %x[%at] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A variable that a branch sets to the bound.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: free:
// CHECK-NEXT: load <4 x float>
// CHECK: free.else:
// CHECK: ret void
qd.kernel @clamped_variable [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1001], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [1001], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 1001 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %left = qd.binary sub %i, %one : si32, si32 -> si32
    %local = qd.local : !qd.ref<si32>
    qd.store %left, %local : !qd.ref<si32>
    %is_outside = qd.binary lt %left, %zero : si32, si32 -> i1
    qd.if %is_outside {
      qd.store %zero, %local : !qd.ref<si32>
      qd.yield
    }
    %at = qd.load %local : !qd.ref<si32>
    %from = qd.element %x[%at] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [1001], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// In a short row the clamped indices of each vector are constants: one wide load and a permutation.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: shufflevector <4 x float> {{.*}} <4 x i32> <i32 0, i32 0, i32 1, i32 2>
// CHECK-NOT: gather
// CHECK: ret void
qd.kernel @clamped_rows [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [5, 8], [32, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [5, 8], [32, 4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %rows = qd.constant 5 : si32
  %columns = qd.constant 8 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %left = qd.binary sub %j, %one : si32, si32 -> si32
    %at = qd.binary max %left, %zero : si32, si32 -> si32
    %from = qd.element %x[%i, %at] : !qd.tensor<f32, [5, 8], [32, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [5, 8], [32, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %value, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Lanes that update elements apart choose once between plain and locked instructions; the locked ones are in a loop over the lanes.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: br i1 %{{.*}}, label %[[PLAIN:.*]], label %[[LOCKED:.*]]
// CHECK: [[PLAIN]]:
// CHECK-COUNT-8: fadd reassoc arcp contract afn float
// CHECK: [[LOCKED]]:
// CHECK: br i1 true, label %[[LOOP:.*]], label
// CHECK: [[LOOP]]:
// CHECK-COUNT-2: atomicrmw fadd
// CHECK-NOT: atomicrmw
qd.kernel @scattered [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<2xf32>, [64], [8], 4>
  %at = qd.tensor_argument field "at" at 8 position 1 : !qd.tensor<si32, [1000], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1000 : si32
  %value = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %at[%i] : !qd.tensor<si32, [1000], [4], 4>, si32 -> !qd.ref<si32>
    %index = qd.load %from : !qd.ref<si32>
    %to = qd.element %x[%index] : !qd.tensor<vector<2xf32>, [64], [8], 4>, si32 -> !qd.ref<vector<2xf32>>
    %values = qd.broadcast %value : f32 -> vector<2xf32>
    %old = qd.atomic add %to, %values : !qd.ref<vector<2xf32>>
    qd.yield
  }
}

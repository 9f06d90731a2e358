// builder.h: compiles the syntax tree of one function to IR
//
// There is one FunctionBuilder per function body. It owns the state of the function and an object for each subject of the language.
#pragma once

#include "frontend/calls/builtin_calls.h"
#include "frontend/calls/calls.h"
#include "frontend/calls/functions.h"
#include "frontend/calls/instances.h"
#include "frontend/calls/python_calls.h"
#include "frontend/calls/register_tiles.h"
#include "frontend/calls/simt.h"
#include "frontend/conversions.h"
#include "frontend/emitter.h"
#include "frontend/expressions/attributes.h"
#include "frontend/expressions/collections.h"
#include "frontend/expressions/expressions.h"
#include "frontend/expressions/matrix_methods.h"
#include "frontend/expressions/operators.h"
#include "frontend/expressions/packed_elements.h"
#include "frontend/expressions/printing.h"
#include "frontend/expressions/runtime_dicts.h"
#include "frontend/expressions/structs.h"
#include "frontend/expressions/subscripts.h"
#include "frontend/expressions/views.h"
#include "frontend/function_syntax.h"
#include "frontend/signature.h"
#include "frontend/statements/assignments.h"
#include "frontend/statements/checkpoints.h"
#include "frontend/statements/loop_ranges.h"
#include "frontend/statements/loops.h"
#include "frontend/statements/sparse_cells.h"
#include "frontend/statements/statements.h"
#include "frontend/statements/stopped_gradients.h"
#include "frontend/statements/variables.h"
#include "frontend/statements/with_statements.h"

namespace qd::frontend {

struct FunctionBuilder {
  FunctionBuilder(Session &session, nb::object source, PythonObject function, FunctionContext *caller);
  FunctionBuilder(const FunctionBuilder &) = delete;
  ~FunctionBuilder() { context.session.current = context.caller; }

  /// Emits the kernel; returns after the module is complete.
  void buildKernel();

  FunctionContext context;
  Emitter emitter{*this};
  Conversions conversions{*this};
#define X(Class, name) Class name{*this};
  QD_FUNCTION_PARTS(X)
#undef X
};

#define X(Class, name)                                                                                                                     \
  inline Class &FunctionPart::name() const { return function.name; }
QD_FUNCTION_PARTS(X)
#undef X

} // namespace qd::frontend

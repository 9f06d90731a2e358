// compile_options.h: the options of qd.init that the passes and the targets use
#pragma once

#include "backends/target.h"
#include "passes/pipeline.h"
#include "support/options.h"

namespace qd {

passes::PipelineOptions makePipelineOptions(const support::Options &options);
backends::TargetOptions makeTargetOptions(const support::Options &options);

} // namespace qd

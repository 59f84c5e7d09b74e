// The floor of a compiled hook: an observer of PyTorch that notes name, operand shapes and result shapes of every
// operator, and prices nothing. benchmarks/speed.py builds it where ninja and a compiler are installed.
#include <torch/extension.h>

#include <ATen/record_function.h>

namespace {

struct Call {
  std::string name;
  std::vector<std::vector<int64_t>> operands, results;
};

std::vector<Call> calls;
at::CallbackHandle handle;

void note(const c10::IValue& value, std::vector<std::vector<int64_t>>& shapes) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) shapes.push_back(value.toTensor().sizes().vec());
  } else if (value.isTensorList()) {
    for (const auto& tensor : value.toTensorVector()) shapes.push_back(tensor.sizes().vec());
  }
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  Call call{function.name(), {}, {}};
  for (const auto& value : function.inputs()) note(value, call.operands);
  calls.push_back(std::move(call));
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext*) {
  for (const auto& value : function.outputs()) note(value, calls.back().results);
}

void start() {
  calls.clear();
  handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

size_t stop() {
  at::removeCallback(handle);
  return calls.size();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("start", &start);
  m.def("stop", &stop);
}

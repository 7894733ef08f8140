-- Health of a GcuResource, for Argo CD (docs/install.md, GitOps).
local health = {status = "Progressing", message = "waiting for the operator"}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
for _, condition in ipairs(obj.status.conditions or {}) do
  if condition.type == "Stalled" then
    return {status = "Degraded", message = condition.reason .. ": " .. condition.message}
  end
  if condition.type == "Reconciling" then
    if condition.reason == "Paused" then
      health.status = "Suspended"
    end
    health.message = condition.message
    return health
  end
end
return {status = "Healthy", message = "ready: " .. (obj.status.readyResource or "0/0")}

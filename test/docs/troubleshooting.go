package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// symptom is a reason in the troubleshooting pages: what a user sees, in English and in Chinese, and in
// Chinese what to do, whose English is that of kubectl gcu. Commands are between backquotes.
type symptom struct {
	reason, seen, seenZH, adviceZH string
}

// symptoms are all reasons with advice, by what a user notices first.
var symptoms = []struct {
	title, titleZH string
	list           []symptom
}{
	{"Nothing starts", "没有节点开始升级", []symptom{
		{"NoUpdateStrategy", "the spec was changed, and pods stay as they are", "修改了 spec，Pod 没有任何变化", "设置升级策略：`kubectl annotate gr GR topsops.enflame.com/update-strategy=AdvancedRollingUpdate`"},
		{"NotSeen", "the operator has not seen the newest spec", "operator 尚未处理最新的 spec", "若持续出现，检查 operator 是否在运行：`kubectl get deployment -A -l app.kubernetes.io/name=gcu-operator`"},
		{"Paused", "the rollout is paused", "升级已暂停", "`kubectl gcu resume GR`"},
		{"Blocked", "a setting is wrong, and nothing is touched", "某项设置有误，不会改动任何节点", "按信息中的提示更正该设置"},
		{"Halted", "too many nodes failed, and no more are started", "失败的节点过多，不再开始新的节点", "发布另一个版本、执行 `kubectl gcu rollback GR`，或修复节点后执行 `kubectl gcu resume GR`"},
		{"RevisionRejected", "the policy rolled the revision back; the previous one is deployed in its place", "升级策略对象已回滚该版本，当前部署的是之前的版本", "发布另一个版本；`kubectl gcu resume GR` 会重新发布被拒绝的版本"},
		{"AwaitingApproval", "a wave needs approval", "某个批次需要批准", "`kubectl gcu approve GR` 列出各批次；`kubectl gcu approve GR WAVE` 批准其中一个"},
		{"AwaitingGlobalTask", "a task of the plan before or after the nodes has not ended", "计划中节点之前或之后的全局任务尚未结束", "无需处理；若持续出现，检查信息中指出的 Job：`kubectl describe job -n NAMESPACE NAME`"},
		{"GlobalTaskFailed", "a task of the plan before or after the nodes failed", "计划中节点之前或之后的全局任务失败", "更正信息中指出的问题；然后删除失败的 Job，它会再次运行"},
		{"AwaitingRequest", "strategy OTA: the node waits for a request", "OTA 策略：节点在等待升级请求", "在该节点上执行：`node-agent ota upgrade`"},
		{"CardsInUse", "strategy OTA: a restart of the runtime waits, because pods use cards", "OTA 策略：有 Pod 正在使用加速卡，暂不重启容器运行时", "无需处理；也可在该节点上执行：`node-agent ota upgrade`"},
		{"OutsideMaintenanceWindow", "the maintenance window is closed", "当前不在维护窗口内", "无需处理：等待维护窗口开启"},
		{"LeftOut", "the upgrade is limited to other nodes or components", "本次升级仅限于其他节点或组件", "`kubectl gcu upgrade GR --nodes …` 继续升级指定节点，`kubectl gcu upgrade GR --all` 升级其余全部节点"},
		{"NodeHeld", "the node is held", "节点处于保留状态", "可以升级时执行：`kubectl gcu release NODE`，或在该节点上执行：`node-agent ota release`；信息中会说明应使用哪一个"},
		{"Ending", "the gr is being deleted", "gr 正在删除", "无需处理：会自动继续"},
	}},
	{"Nodes wait for their turn", "节点在排队等待", []symptom{
		{"BudgetExhausted", "as many nodes are unavailable as may be", "不可用节点数已达到上限", "无需处理，或修复因其他原因不可用的节点；注解 `topsops.enflame.com/max-unavailable` 决定同时允许多少个"},
		{"PoolBudgetExhausted", "the same in a pool of nodes", "所在节点池的不可用节点数已达到上限", "无需处理；UpgradePolicy 中的 pools 决定同时允许多少个"},
		{"NodesOnProbation", "nodes that were just upgraded have not sent a heartbeat since", "刚升级完的节点之后还没有上报心跳", "通常无需处理；若持续出现，检查最近升级的节点，它们可能已经失联而 Kubernetes 尚未显示"},
		{"Queued", "the node is next", "该节点即将开始", "无需处理：会自动继续"},
		{"Preparing", "the node is checked, or images are pulled in advance", "正在检查节点或预拉取镜像", "无需处理：会自动继续"},
		{"WaveNotReached", "an earlier wave is not complete", "之前的批次尚未完成", "无需处理；若消息指出某个批次的节点现在都无法升级，使其中一个恢复在线，或修改 UpgradePolicy 的 waves"},
		{"Soaking", "a wave is complete and is observed for a while", "批次已完成，正在观察一段时间", "无需处理；若消息指出某个节点不可用，修复该节点，或发布另一个版本"},
		{"RecentlyReturned", "the node has just come back", "节点刚刚恢复在线", "无需处理：会自动继续"},
		{"NodeBusy", "another gr works on the node", "另一个 gr 正在操作该节点", "无需处理：先执行另一个 gr 的操作"},
		{"CordonHeld", "another operation keeps the node cordoned, or the node may not be changed", "另一个操作使节点保持禁止调度（cordon），或不允许修改节点", "无需处理；若消息指出不允许修改节点，检查准入 webhook 或角色权限"},
		{"Unavailable", "a pod at the newest revision is not available", "已是最新版本的 Pod 不可用", "`kubectl get pods -A --field-selector spec.nodeName=NODE`，检查不可用的 Pod"},
		{"Waiting", "the rollout waits for more than one thing", "升级在等待多个条件", "`kubectl gcu status GR` 会说明在等待什么"},
	}},
	{"A node takes long", "某个节点耗时过长", []symptom{
		{"Replacing", "its pods are being replaced", "正在替换节点上的 Pod", "无需处理：会自动继续"},
		{"Operating", "its operation runs", "节点操作正在执行", "无需处理：会自动继续"},
		{"AwaitingPod", "the new pod is not there yet", "新的 Pod 尚未创建", "无需处理：会自动继续"},
		{"PodTerminating", "the old pod does not end", "旧的 Pod 一直处于 Terminating 状态", "若持续出现：`kubectl get pods -A --field-selector spec.nodeName=NODE`，检查是什么阻止 Pod 退出"},
		{"AwaitingAvailable", "the new pod is not Ready", "新的 Pod 未就绪", "若持续出现：`kubectl get pods -A --field-selector spec.nodeName=NODE`，检查新的 Pod"},
		{"Slow", "it takes longer than the others", "耗时比其他节点长", "`kubectl get pods -A --field-selector spec.nodeName=NODE`；`kubectl describe nu NODE`"},
		{"DrainBlocked", "a pod or a PodDisruptionBudget blocks the drain", "Pod 或 PodDisruptionBudget 阻止排空（drain）", "迁移信息中指出的 Pod，或修改其 PodDisruptionBudget"},
		{"DrainTimeout", "the drain ran out of time", "排空超时", "迁移信息中指出的 Pod；节点会自动重试"},
		{"DeviceInUse", "a process or a pod has a card open", "有进程或 Pod 仍在占用加速卡", "结束信息中指出的 Pod 或进程"},
		{"Deferred", "the node was put off and uncordoned", "节点已推迟，并恢复调度", "按信息中的提示处理；节点会自动重试"},
		{"PrecheckFailed", "the node lacks something", "节点未通过预检查", "补齐信息中指出的节点所缺条件"},
		{"PrepullFailed", "an image cannot be pulled", "镜像拉取失败", "检查镜像是否存在、节点能否访问镜像仓库，以及拉取凭据（pull secret）"},
		{"LeftToAdministrator", "the runtime has to be restarted by hand", "需要人工重启容器运行时", "按信息中的提示，在该节点上重启容器运行时"},
		{"NoSuccessor", "a taint would keep the new pod off the node", "污点会使新的 Pod 无法调度到该节点", "移除信息中指出的污点；不属于任何 gr 的 DaemonSet 也可以改为添加对应的容忍"},
		{"VersionNotAllowed", "the policy does not allow the versions that the node would get", "UpgradePolicy 不允许该节点升级到这些版本", "按信息中给出的路径升级：`kubectl gcu upgrade GR -f FILE --nodes NODE`，或修改 UpgradePolicy 的 spec.versions"},
		{"AgentTooOld", "the node agent is older than the manager", "节点上的 node agent 版本比 manager 旧", "升级 NODE 上的 node agent：`kubectl get daemonset -A -l app.kubernetes.io/name=gcu-node-agent`"},
	}},
	{"The API server refuses", "API server 拒绝请求", []symptom{
		{"DeletionDenied", "a pod may not be deleted", "不允许删除 Pod", "允许 operator 删除信息中指出的 Pod：检查准入 webhook 或角色权限；会自动重试"},
		{"FenceDenied", "the status of a pod may not be written", "不允许写入 Pod 的状态", "允许 operator patch pods/status：检查准入 webhook 或角色权限；会自动重试"},
		{"OperationDenied", "the operation of a node may not be written", "不允许写入节点操作", "允许 operator create 和 patch nodeupgrades：检查准入 webhook 或角色权限；会自动重试"},
	}},
	{"A node is skipped or failed", "节点被跳过或失败", []symptom{
		{"NodeOffline", "the node was offline before it was touched", "节点在升级开始之前已离线", "恢复该节点：Ready 之后会自动升级"},
		{"NodeLost", "the node went offline after it was started", "节点在升级过程中离线", "恢复该节点；超过期限后计为失败"},
		{"CrashLooping", "the new pod crashes", "新的 Pod 反复崩溃", "发布另一个版本，或修复节点：`kubectl describe nu NODE`"},
		{"CrashLoop", "the same in an operation", "节点操作中新的 Pod 反复崩溃", "发布另一个版本，或修复节点：`kubectl describe nu NODE`"},
		{"ProgressDeadlineExceeded", "the new pod did not become available in time", "新的 Pod 未在期限内变为可用", "发布另一个版本，或修复节点：`kubectl describe nu NODE`"},
		{"ProgressDeadline", "the same in an operation", "节点操作中新的 Pod 未在期限内变为可用", "发布另一个版本，或修复节点：`kubectl describe nu NODE`"},
		{"SoakFailed", "a pod became unavailable while it was observed", "观察期内 Pod 变为不可用", "发布另一个版本，或修复节点：`kubectl describe nu NODE`"},
		{"VerifyFailed", "the new driver or runtime does not work on the node", "新的驱动或容器运行时在节点上工作不正常", "检查节点上信息指出的内容，然后执行 `kubectl gcu task retry NODE TASK`"},
		{"RestartFailed", "docker or containerd could not be restarted", "docker 或 containerd 重启失败", "检查节点上的容器运行时，然后执行 `kubectl gcu task retry NODE TASK`"},
		{"RuntimeSetBack", "the default runtime of the node was changed back", "节点的默认容器运行时被改回", "在 NODE 上找出改写 docker 或 containerd 配置的工具并停用；容器运行时会自动重启"},
		{"OperationDeadline", "the operation took too long", "节点操作超时", "`kubectl gcu abort NODE`，或 `kubectl gcu task retry NODE TASK`"},
		{"OperationFailed", "the new version does not work on the node", "新版本在该节点上无法工作", "`kubectl gcu task retry NODE TASK`、`kubectl gcu abort NODE`，或发布另一个版本"},
		{"OperationAborted", "a person aborted the operation", "节点操作已被人工中止", "可以再次升级时执行 `kubectl gcu resume GR`"},
		{"Pinned", "the node was rolled back individually, and is kept at an earlier version", "节点已单独回退，并保持在之前的版本", "发布另一个版本，或重试该版本：`kubectl gcu task retry NODE TASK`"},
		{"Quarantined", "the last known good revision does not work there either", "上一个正常的版本在该节点上也无法工作", "修复节点，然后执行 `kubectl gcu abort NODE`"},
		{"BadOperation", "the operation cannot be understood", "无法识别节点操作", "请反馈此问题：`kubectl gcu support-bundle`"},
	}},
	{"A component goes", "组件正在被移除", []symptom{
		{"RemovedNodeByNode", "a removed or renamed component leaves node by node", "被移除或改名的组件正在逐节点移除", "无需处理；`kubectl gcu pause GR` 暂停，`kubectl gcu rollback GR` 回退"},
		{"RemovedAtOnce", "without a strategy it went from all nodes at once", "未设置升级策略，组件已从所有节点上同时移除", "旧的 Pod 无法恢复：`kubectl gcu rollback GR` 会重新部署该组件；下次请先查看 `kubectl gcu plan -f`"},
	}},
}

// quoted are the commands and names of a text between backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// troubleshootingPages returns the pages in English and in Chinese.
func troubleshootingPages() (en, zh string) {
	en = "# Troubleshooting\n\n`kubectl gcu status GR` and `kubectl gcu nodes` show a reason for each node, and what to do. This page is generated from the same texts; the [runbooks](operate.md#runbooks) say more. " +
		"GR, NODE, WAVE and TASK stand for names.\n"
	zh = "# 故障排查\n\n`kubectl gcu status GR` 和 `kubectl gcu nodes` 会显示每个节点的原因和处理方法。本页由相同的文本生成，更多说明见 [runbooks](../operate.md#runbooks)（英文）。" +
		"GR、NODE、WAVE、TASK 代表具体的名称。\n"
	for _, group := range symptoms {
		en += fmt.Sprintf("\n## %s\n\n| what you see | reason | what to do |\n|---|---|---|\n", group.title)
		zh += fmt.Sprintf("\n## %s\n\n| 现象 | 原因 | 处理方法 |\n|---|---|---|\n", group.titleZH)
		for _, s := range group.list {
			en += fmt.Sprintf("| %s | `%s` | %s |\n", s.seen, s.reason, asCode(display.Advice(s.reason, ""), s.adviceZH))
			zh += fmt.Sprintf("| %s | `%s` | %s |\n", s.seenZH, s.reason, s.adviceZH)
		}
	}
	return en, zh
}

// asCode puts what is between backquotes in another language between backquotes in a text.
func asCode(text, other string) string {
	pairs := []string{}
	for _, m := range quoted.FindAllStringSubmatch(other, -1) {
		pairs = append(pairs, m[1], m[0])
	}
	// The longest first: one command may begin another.
	for i := 0; i < len(pairs); i += 2 {
		for j := i + 2; j < len(pairs); j += 2 {
			if len(pairs[j]) > len(pairs[i]) {
				pairs[i], pairs[i+1], pairs[j], pairs[j+1] = pairs[j], pairs[j+1], pairs[i], pairs[i+1]
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

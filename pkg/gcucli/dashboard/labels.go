package dashboard

// reasonGone is the reason of a node in a plan that the cluster, or the gr, no longer has.
const reasonGone = "not a node of the gr"

// labels are the fixed words of the operator (states and reasons) in languages other than English. English pages
// show the words themselves, as kubectl gcu does.
var labels = map[string]map[string]string{"zh": {
	// States of a gr, of a component, of a wave, of an operation and of its tasks.
	"Done": "已完成", "Working": "进行中", "Waiting": "等待中", "Stopped": "已停止", "deploying": "部署中", "deleting": "删除中", "upgrading": "升级中", "rollbacking": "回滚中", "Running": "运行中",
	"failed": "失败", "Complete": "已完成", "Soaking": "观察中", "Open": "进行中", "AwaitingApproval": "等待批准", "NotReached": "未到达", "Releasing": "正在释放节点", "Failed": "失败",
	"Deferred": "已推迟", "Aborted": "已中止", "Quarantined": "已隔离", "Pending": "未开始", "Skipped": "已跳过", "Undoing": "正在撤销", "Undone": "已撤销",
	// Why nodes of a rollout are in their state.
	"AtTarget": "已是目标版本", "Pinned": "已固定在之前的版本", "Replacing": "正在替换 Pod", "PodTerminating": "Pod 正在终止", "AwaitingPod": "等待新的 Pod", "AwaitingAvailable": "等待 Pod 可用",
	"NodeLost": "节点失联", "Operating": "节点操作执行中", "FenceDenied": "写入 Pod 状态被拒绝", "OperationDenied": "写入节点操作被拒绝", "BudgetExhausted": "不可用预算已用尽",
	"PoolBudgetExhausted": "节点池预算已用尽", "NodesOnProbation": "节点试用中", "Queued": "排队中", "Unavailable": "Pod 不可用", "Preparing": "准备中", "NodeBusy": "节点被其他操作占用",
	"RuntimeSetBack": "默认容器运行时被改回", "DeletionDenied": "删除 Pod 被拒绝", "WaveNotReached": "批次未到达", "RecentlyReturned": "节点刚恢复", "OutsideMaintenanceWindow": "不在维护窗口内",
	"Halted": "已中断", "Paused": "已暂停", "Ending": "正在结束", "NoSuccessor": "新的 Pod 无法调度", "Blocked": "设置有误", "AwaitingRequest": "等待节点请求", "LeftOut": "不在本次升级范围内",
	"VersionNotAllowed": "版本不被允许", "AgentTooOld": "node agent 版本过旧", "LeftToAdministrator": "需管理员处理", "NodeHeld": "节点被保留", "NodeOffline": "节点离线", "CrashLooping": "反复崩溃",
	"ProgressDeadlineExceeded": "超过进度期限", "OperationFailed": "节点操作失败", "OperationAborted": "节点操作被中止", "Slow": "耗时过长",
	// Of a rollout and a gr.
	"AwaitingGlobalTask": "等待全局任务", "GlobalTaskFailed": "全局任务失败",
	"AwaitingRequests": "等待节点请求", "InProgress": "进行中", "NodesFailed": "有节点失败", "NodesPinned": "有节点被固定", "RollingBack": "正在回滚", "RolledBack": "已回滚",
	"RevisionRejected": "版本被拒绝", "Superseded": "已被取代", "Restarted": "已重启", "RestartFailed": "重启失败", "RevisionChanged": "版本已变化", "Withdrawn": "已撤回", "NotSeen": "尚未处理",
	"Deploying": "部署中", "Deleting": "删除中", "Removing": "移除中", "ReconcileFailed": "协调失败", "AsExpected": "符合预期", "Upgrading": "升级中", "WaitingForNodes": "等待节点",
	"NoUpdateStrategy": "未设置升级策略", "RemovedAtOnce": "已同时移除", "RemovedNodeByNode": "逐节点移除", "ApplyFailed": "应用对象失败", "ComponentConflict": "组件冲突", "DriverMissing": "缺少驱动", "NodeNotAllowed": "节点未获准",
	"JobFailed": "Job 失败", "NamespaceMissing": "缺少命名空间", "NamespaceTerminating": "命名空间正在终止", "NotInstalled": "未安装", "ObjectConflict": "对象冲突",
	"NoPreviousRevision": "没有之前的版本", "RefusedRevision": "版本被拒绝", "UnknownRevision": "未知版本", "UnreadableRevision": "版本无法读取", "InvalidMaxUnavailable": "max-unavailable 无效",
	"InvalidPaused": "paused 无效", "SettingsDisagree": "升级注解不一致", "InvalidUpdateStrategy": "升级策略无效", "InvalidUpgradeOnly": "upgrade-only 无效", "InvalidUpgradePlan": "UpgradePlan 无效",
	"InvalidUpgradePolicy": "UpgradePolicy 无效", "UpdateTypeNotOnDelete": "更新类型不是 OnDelete", "UpgradePlanNotFound": "UpgradePlan 不存在",
	"UpgradePlanOutdated": "UpgradePlan 已过期", "UpgradePolicyNotFound": "UpgradePolicy 不存在",
	// Of an operation, and of events about it.
	"Started": "已开始", "AwaitingSlot": "等待名额", "BadOperation": "节点操作无效", "CardsInUse": "加速卡使用中", "CordonHeld": "无法禁止调度", "CrashLoop": "反复崩溃", "DeviceInUse": "设备被占用",
	"DrainBlocked": "排空受阻", "DrainTimeout": "排空超时", "NodeReplaced": "节点已被替换", "OperationDeadline": "节点操作超时", "PrecheckFailed": "预检查未通过", "PrepullFailed": "预拉取镜像失败",
	"ProgressDeadline": "超过进度期限", "SoakFailed": "观察期内失败", "Succeeded": "成功", "TargetChanged": "目标版本已变化", "VerifyFailed": "验证失败",
	// Of a request of a node.
	"Replaced": "已替换", "NotControlled": "没有升级策略", "NotEligible": "不能升级", "DaemonSetGone": "DaemonSet 已不存在", "Freed": "已解除固定", "InvalidRequest": "请求无效",
	// Of this package.
	reasonGone: "不是该 gr 的节点",
}}

// label is a fixed word of the operator as a language has it.
type label struct {
	// Word is that of the operator.
	Word, Text string
	// English reports whether the text is English although the page is not.
	English bool
}

// Label returns a fixed word of the operator in the language of the page. A word without a label stays as it is.
func (w words) Label(word string) label {
	text, ok := labels[w["lang"]][word]
	if !ok {
		return label{word, word, word != "" && w["lang"] != languages[0]}
	}
	return label{word, text, false}
}

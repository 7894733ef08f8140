package dashboard

// words are the texts of the page in one language, by key. Words of the operator (states, reasons) are in
// labels; its messages and advice stay English in every language, as in kubectl.
type words map[string]string

// Of returns a text, or the key if there is none.
func (w words) Of(key string) string {
	if text, ok := w[key]; ok {
		return text
	}
	return key
}

// languages are those of the page; the first is the default.
var languages = []string{"en", "zh"}

var texts = map[string]words{
	"en": {
		"title": "GCU fleet", "lang": "en", "other": "zh", "otherName": "中文", "live": "live", "at": "read at", "lost": "connection lost, trying again", "noanswer": "There was no answer: the connection is lost. If this was an action, it may have been carried out or not.",
		"updated": "updated", "in-flight": "in flight", "pending": "pending", "held": "held", "skipped": "skipped", "failed": "failed", "pinned": "pinned", "outdated": "outdated", "stuck": "stuck",
		"skip": "Skip the nodes",
		"of":   "of", "budget": "unavailable, at most", "eta": "time left", "unknown": "not known", "waves": "Waves", "waiting": "What nodes wait for", "nodes": "Nodes", "component": "Component",
		"status": "Status", "version": "Version", "message": "Message", "reason": "Reason", "count": "Nodes", "do": "What to do", "wave": "Wave",
		"windows": "Maintenance window", "zone": "Time zone", "opens": "Opens next", "closes": "Closes next", "window-open": "open", "window-closed": "closed",
		"by-zone": "by zone", "by-wave": "by wave", "by-plan": "by plan", "no-zone": "no zone", "no-wave": "in no wave", "no-plan": "not in the plan", "nodes-before": "before the nodes", "nodes-after": "after the nodes", "done": "done", "fail": "failed", "undo": "not done",
		"task": "Task", "state": "State", "began": "Began", "ended": "Ended", "requests": "Requests", "history": "Earlier operations", "events": "Events", "close": "Close",
		"pause": "Pause", "resume": "Resume", "approve": "Approve", "rollback": "Roll back", "hold": "Hold", "release": "Release", "retry": "Retry", "cancel": "Cancel", "strategy": "Strategy", "policy": "Policy",
		"pause?": "No new node is started; nodes in flight finish.", "resume?": "New nodes are started again. If too many had failed, their failures are cleared and they are retried. A revision that was rolled back is rolled out again, unless the gr is paused: then only the pause ends.",
		"approve?": "The nodes of this wave are started, within the budget.", "rollback?": "The spec before the current one is restored, and nodes go back under the same rules as an upgrade.",
		"hold?": "Nothing is started on this node until it is released; what is in flight continues.", "release?": "The node may be upgraded again.", "retry?": "The failed task is retried.",
		"revision": "Revision", "changes": "Changes", "images": "Images", "nodes-approve": "Nodes that may be started", "nodes-rollback": "Nodes that go back", "nodes-wait": "Nodes that wait", "node": "Node",
		"says": "kubectl gcu then says", "refused": "Refused", "checking": "Asking the API server what it would do…",
		"notshown": "Not shown", "nogr": "There is no gr on this cluster.",
	},
	"zh": {
		"title": "GCU 集群", "lang": "zh", "other": "en", "otherName": "English", "live": "实时", "at": "读取于", "lost": "连接已断开，正在重试", "noanswer": "没有收到应答：连接已断开。如果这是一项操作，它可能已执行，也可能未执行。",
		"updated": "已升级", "in-flight": "升级中", "pending": "等待中", "held": "被阻止", "skipped": "已跳过", "failed": "失败", "pinned": "已固定", "outdated": "旧版本", "stuck": "停滞",
		"skip": "跳过节点",
		"of":   "/", "budget": "不可用，最多", "eta": "剩余时间", "unknown": "未知", "waves": "批次", "waiting": "节点在等待什么", "nodes": "节点", "component": "组件",
		"status": "状态", "version": "版本", "message": "信息", "reason": "原因", "count": "节点数", "do": "处理方法", "wave": "批次",
		"windows": "维护窗口", "zone": "时区", "opens": "下次打开", "closes": "下次关闭", "window-open": "已打开", "window-closed": "已关闭",
		"by-zone": "按可用区", "by-wave": "按批次", "by-plan": "按计划", "no-zone": "无可用区", "no-wave": "不属于任何批次", "no-plan": "不在计划中", "nodes-before": "节点之前", "nodes-after": "节点之后", "done": "完成", "fail": "失败", "undo": "未完成",
		"task": "任务", "state": "状态", "began": "开始", "ended": "结束", "requests": "请求", "history": "历史操作", "events": "事件", "close": "关闭",
		"pause": "暂停", "resume": "继续", "approve": "批准", "rollback": "回滚", "hold": "保留", "release": "释放", "retry": "重试", "cancel": "取消", "strategy": "策略", "policy": "升级策略对象",
		"pause?": "不再开始新的节点；升级中的节点会完成。", "resume?": "重新开始新的节点。如果之前失败过多，失败记录会被清除并重试这些节点。已回滚的版本会再次发布；如果 gr 已暂停，则只解除暂停。",
		"approve?": "在预算之内开始升级该批次的节点。", "rollback?": "恢复到前一个 spec，节点按与升级相同的规则回退。",
		"hold?": "在释放之前不在该节点上开始任何操作；进行中的操作会继续。", "release?": "该节点可以再次升级。", "retry?": "重新执行失败的任务。",
		"revision": "版本", "changes": "变更", "images": "镜像", "nodes-approve": "可开始升级的节点", "nodes-rollback": "将回退的节点", "nodes-wait": "等待中的节点", "node": "节点",
		"says": "执行后 kubectl gcu 的输出", "refused": "被拒绝", "checking": "正在向 API server 询问该操作的效果…",
		"notshown": "未显示", "nogr": "集群中没有 gr。",
	},
}

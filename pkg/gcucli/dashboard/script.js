'use strict';
const get = id => document.getElementById(id);
const [main, detail, node, ask, dryRun, said, wrong, link] = ['main', 'detail', 'node', 'ask', 'dryRun', 'said', 'wrong', 'link'].map(get);

// The server sends the page whenever something changed, and the time of its last reading at least every 15 seconds.
let events = null, silence = 0;
function connect() {
	events?.close();
	events = new EventSource('events' + location.search);
	events.addEventListener('page', drawPage);
	events.addEventListener('read', e => { get('at').textContent = e.data; heard(); });
	events.onerror = () => linked(false);
	silence = setTimeout(silent, 40000);
}
function heard() {
	clearTimeout(silence);
	silence = setTimeout(silent, 40000);
	linked(!main.querySelector('[data-error]'));
}
function silent() {
	linked(false);
	connect();
}
function linked(live) {
	const text = live ? document.body.dataset.live : document.body.dataset.lost;
	if (link.textContent !== text) link.textContent = text; // it is read aloud
	link.className = live ? '' : 'lost';
}

// drawPage shows the page that was sent. What is open, focused or scrolled stays.
function drawPage(e) {
	const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
	filled(main, now => { now.innerHTML = JSON.parse(e.data); });
	if (focused) linkTo(focused)?.focus();
	heard();
	if (shown) show(shown);
}
const linkTo = href => main.querySelector(`a[href="${CSS.escape(href)}"]`);

// filled gives an element other content.
function filled(old, fill) {
	const now = old.cloneNode(false);
	fill(now);
	become(old, now);
}

// become makes an element like another. It leaves what is alike in place, so that nothing is exchanged under a pointer that
// is pressed.
function become(old, now) {
	if (old.isEqualNode(now)) return;
	if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== now.nodeName) { old.replaceWith(now); return; }
	for (const {name} of [...old.attributes]) if (name !== 'open' && !now.hasAttribute(name)) old.removeAttribute(name);
	for (const {name, value} of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	const before = [...old.childNodes];
	[...now.childNodes].forEach((child, i) => { if (before[i]) become(before[i], child); else old.append(child); });
	before.slice(now.childNodes.length).forEach(child => child.remove());
}

// The panel of a node. Answers count only if nothing newer is drawn, and only for the node that was asked for last.
let shown = null, asked = 0, drawn = 0;
async function show(href) {
	shown = href;
	const number = ++asked;
	const {ok, text, lang} = await answered(href + location.search.replace('?', '&'));
	if (shown !== href || number < drawn) return;
	drawn = number;
	filled(node, now => { if (ok) now.innerHTML = text; else now.append(failure(text, lang)); });
	detail.hidden = false;
}
function failure(text, lang) {
	const p = document.createElement('p');
	p.className = 'error';
	p.setAttribute('role', 'alert');
	p.textContent = text;
	p.lang = lang;
	return p;
}
function hide() {
	if (!shown) return;
	detail.hidden = true;
	linkTo(shown)?.focus();
	shown = null;
}

// answered returns the text of an answer, its language if it is no HTML, and whether it is a good one.
async function answered(path, request) {
	try {
		const answer = await fetch(path, request);
		return {ok: answer.ok, text: await answer.text(), lang: 'en'};
	} catch {
		return {ok: false, text: document.body.dataset.noanswer, lang: document.documentElement.lang};
	}
}

document.addEventListener('click', async e => {
	const cell = e.target.closest('a.cell');
	if (cell) {
		e.preventDefault();
		await show(cell.getAttribute('href'));
		if (shown === cell.getAttribute('href')) detail.focus();
		return;
	}
	if (e.target.closest('[data-close]')) { hide(); return; }
	const button = e.target.closest('[data-verb]');
	if (button) confirmed(button.textContent, {...button.dataset});
});
document.addEventListener('keydown', e => { if (e.key === 'Escape' && !ask.open) hide(); });

// confirmed says what an action would do, and carries it out if the person agrees: as it was shown, since by the end of the
// dialog the button may say something else. What the API server would refuse cannot be agreed to.
let questions = 0;
async function confirmed(label, wish) {
	const number = ++questions, go = ask.querySelector('.go');
	ask.querySelector('h2').textContent = label + ' · ' + wish.gr;
	ask.querySelector('p').textContent = wish.ask;
	dryRun.textContent = document.body.dataset.checking;
	go.textContent = label;
	go.disabled = true;
	ask.querySelector('form').onsubmit = e => { if (e.submitter.value === 'yes') act(wish); }; // onclose comes late, maybe after the next question
	ask.showModal();
	const query = new URLSearchParams({verb: wish.verb, gr: wish.gr, target: wish.target});
	const {ok, text, lang} = await answered('dry-run?' + query + location.search.replace('?', '&'));
	if (number !== questions) return;
	if (ok) dryRun.innerHTML = text; else dryRun.replaceChildren(failure(text, lang));
	wish.seen = dryRun.querySelector('[data-seen]')?.dataset.seen;
	go.disabled = !wish.seen;
}

// act carries out an action. What it did is shown for a while, an error until the next action.
async function act({verb, gr, target, seen}) {
	said.hidden = wrong.hidden = true;
	clearTimeout(act.timer);
	const {ok, text, lang} = await answered('do', {method: 'POST', body: new URLSearchParams({verb, gr, target, seen})});
	const place = ok ? said : wrong;
	place.textContent = text;
	place.lang = lang;
	place.hidden = false;
	if (ok) act.timer = setTimeout(() => { said.hidden = true; }, 10000);
}
connect();

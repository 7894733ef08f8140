'use strict';
const get = id => document.getElementById(id);
const [main, detail, ask, said, link] = ['main', 'detail', 'ask', 'said', 'link'].map(get);

// The page again, whenever something changed. What is open, focused or scrolled stays.
const events = new EventSource('events' + location.search);
events.addEventListener('page', e => {
	const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
	const now = main.cloneNode(false);
	now.innerHTML = JSON.parse(e.data);
	become(main, now);
	if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
	if (shown) show(shown, false);
});

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
events.onopen = () => { link.textContent = document.body.dataset.live; link.className = ''; };
events.onerror = () => { link.textContent = document.body.dataset.lost; link.className = 'lost'; };

let shown = null;
async function show(href, focus) {
	const answer = await fetch(href + location.search.replace('?', '&'));
	detail.innerHTML = await answer.text();
	detail.hidden = false;
	shown = href;
	if (focus) detail.focus();
}
function hide() { detail.hidden = true; shown = null; }

document.addEventListener('click', e => {
	const node = e.target.closest('a.cell');
	if (node) { e.preventDefault(); show(node.getAttribute('href'), true); return; }
	if (e.target.closest('[data-close]')) { hide(); return; }
	const button = e.target.closest('[data-verb]');
	if (button) confirmed(button);
});
document.addEventListener('keydown', e => { if (e.key === 'Escape' && !ask.open) hide(); });

function confirmed(button) {
	ask.querySelector('h2').textContent = button.textContent + ' ' + (button.dataset.target || button.dataset.gr);
	ask.querySelector('p').textContent = button.dataset.ask;
	ask.querySelector('.go').textContent = button.textContent;
	ask.onclose = () => { if (ask.returnValue === 'yes') act(button.dataset); };
	ask.returnValue = 'no';
	ask.showModal();
}
async function act({verb, gr, target}) {
	const answer = await fetch('do', {method: 'POST', body: new URLSearchParams({verb, gr, target})});
	said.textContent = await answer.text();
	said.hidden = false;
	clearTimeout(act.timer);
	act.timer = setTimeout(() => { said.hidden = true; }, 10000);
}

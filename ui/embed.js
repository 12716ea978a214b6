// What other apps load: <script type="module" src="http://…/ui/embed.js"></script>, and the elements are there.

import { ReveilleMessage } from './elements/reveille-message.js';
import { ReveilleTimer } from './elements/reveille-timer.js';

if (!customElements.get('reveille-timer')) customElements.define('reveille-timer', ReveilleTimer);
if (!customElements.get('reveille-message')) customElements.define('reveille-message', ReveilleMessage);
